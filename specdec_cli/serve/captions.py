"""What a server does with recordings: captions them, many at a time, as `specdec batch` does. Calls block."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Final

import torch
from starlette.requests import ClientDisconnect

from specdec_cli.audio import Recording
from specdec_cli.captioner import Captioner
from specdec_cli.config.resolve import ResolvedConfig
from specdec_cli.errors import SpecdecError
from specdec_cli.inputs.recording import InputFile
from specdec_cli.models.engine import encoders_and_threads
from specdec_cli.models.processor import Processor
from specdec_cli.run import Run
from specdec_cli.serve.clips import Forwards
from specdec_cli.serve.limits import ServeLimits
from specdec_cli.serve.requests import PREFIX, ApiError
from specdec_cli.transcript import Transcript
from specdec_cli.transcript.round import Round
from specdec_cli.types import Mode, Token

NAME: Final = "The recording"
_VARIANTS: Final = 32  # settings that are kept ready
_PREPARING: Final = 2  # recordings that are read at a time


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a recording: its number and place, and what its prompt takes."""

    index: int
    start_s: float
    end_s: float
    prompt_tokens: int = 0
    audio_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """What a request is told as it happens: a block of a piece, or the piece's transcript."""

    piece: Piece
    text: str  # that the caption certainly gains
    tokens: tuple[Token, ...]  # that were committed
    made: Round | Transcript


@dataclass(frozen=True, slots=True)
class Order:
    """What is asked for: settings by dotted name, the recording, and texts in place of the shipped ones."""

    mode: Mode
    settings: Mapping[str, object]
    sound: bytes
    instruction: str | None
    system: str | None


class Captions:
    """Loaded models that caption recordings.

    Args:
        captioner: in the configured mode.
        resolved: its configuration, which requests vary.
        forwards: makes those of loaded models.
        room: clips that are decoded at a time.
    """

    def __init__(
        self,
        captioner: Captioner,
        resolved: ResolvedConfig,
        limits: ServeLimits,
        forwards: Forwards | None,
        room: int,
    ) -> None:
        self.limits, self.loaded, self._resolved, self._forwards = limits, captioner, resolved, forwards
        self._variants: OrderedDict[str, Captioner] = OrderedDict()
        self._lock, self._under_way, self._most = threading.Lock(), 0, room + limits.waiting
        self._decoding, self._preparing = threading.Semaphore(room), threading.Semaphore(_PREPARING)
        models = captioner.pair.loaded
        threads = encoders_and_threads(models)[1] if models else torch.get_num_threads()
        self._pool = ThreadPoolExecutor(2 * room, "specdec caption", torch.set_num_threads, (threads,))

    @property
    def writer(self) -> Processor:
        """What turns token ids into text."""
        return self.loaded.pair.writer

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Those for which the models are loaded."""
        used: dict[Mode, set[str]] = {
            "hybrid": {"edge", "cloud"},
            "lossless": {"edge", "cloud"},
            "edge": {"edge"},
            "cloud": {"cloud"},
        }
        return tuple(mode for mode, roles in used.items() if roles <= self.loaded.config.models.keys())

    def mode_of(self, model: str) -> Mode:
        """The mode that a model's name stands for. Raises ApiError where it is not offered."""
        for mode in self.modes:
            if model == PREFIX + mode:
                return mode
        offered = ", ".join(PREFIX + mode for mode in self.modes)
        raise ApiError(404, f"There is no such model here. This server has {offered}.", "model", "model_not_found")

    @property
    def under_way(self) -> int:
        """Requests that are being captioned or wait for it."""
        return self._under_way

    def submit(self, order: Order, tell: Callable[[Step], None], left: threading.Event) -> Future[list[Transcript]]:
        """Captions a recording in a thread, which calls `tell`; its result is the transcript of each piece.

        `left` is set when the client no longer waits: no further forward is made for it. Raises ApiError where too
        many wait, and in the thread ClientDisconnect, ApiError or SpecdecError.
        """
        with self._lock:
            if self._under_way >= self._most:
                says = f"{self._most} recordings are being captioned or wait for it, as many as may."
                raise ApiError(429, f"{says} Try again in a moment.", None, "queue_full", Retry_After="1")
            self._under_way += 1
        future = self._pool.submit(self._caption, order, tell, left)
        future.add_done_callback(self._ended)
        return future

    def close(self) -> None:
        """Ends after the pieces under way."""
        self._pool.shutdown(cancel_futures=True)
        if self._forwards is not None:
            self._forwards.close()

    def _ended(self, _: object) -> None:
        with self._lock:
            self._under_way -= 1

    def variant(self, mode: Mode, settings: Mapping[str, object]) -> Captioner:
        """The captioner of a mode and settings. Raises ConfigError where they are wrong, or contradict each other."""
        changed = {"decoding.mode": mode, **settings}
        key = json.dumps(changed, sort_keys=True, default=str)
        with self._lock:
            if (known := self._variants.get(key)) is not None:
                self._variants.move_to_end(key)
                return known
        made = self.loaded.variant(self._resolved.varied(changed, "specdec").config)
        if not {"decoding.stop_strings", "prompt.system"} & changed.keys():  # a client's texts are not kept
            with self._lock:
                self._variants[key] = made
                if len(self._variants) > _VARIANTS:
                    self._variants.popitem(last=False)
        return made

    def _caption(self, order: Order, tell: Callable[[Step], None], left: threading.Event) -> list[Transcript]:
        own = {"prompt.text": order.instruction, "prompt.system": order.system}
        if order.instruction is None and order.system is None:
            own = {}
        captioner = self.variant(order.mode, {**order.settings, **{k: v for k, v in own.items() if v is not None}})
        done = list[Transcript]()
        with _file_of(order.sound) as path:
            _check(left)
            try:
                with self._preparing:
                    recording = captioner.recording(InputFile(path))
                self._require_short(recording)
                runs = captioner.runs_of(recording)
                while True:
                    _check(left)
                    with self._preparing:
                        run = next(runs, None)
                    if run is None:
                        return done
                    if run.error is not None and recording.whole:
                        raise run.error
                    done.append(self._decode(captioner, run, tell, left))
            except SpecdecError as error:
                error.message = error.message.replace(path, NAME)
                raise

    def _require_short(self, recording: Recording) -> None:
        longest = self.limits.recording_s if self.limits.clip_s is None else self.limits.clip_s
        if recording.duration_s > longest:
            says = f"The recording lasts {recording.duration_s:.1f} s; this server takes {longest:g} s."
            raise ApiError(413, f"{says} Send it in parts.", "messages", "recording_too_long")

    def _decode(
        self, captioner: Captioner, run: Run, tell: Callable[[Step], None], left: threading.Event
    ) -> Transcript:
        """The transcript of one piece, decoded beside others; of a piece that fails, its error line."""
        piece, told = _piece(run, captioner.pair.writer.placeholders), 0
        for round_, caption, tokens in self._rounds(run, left) if run.error is None else ():
            settled = captioner.setup.settled(caption)
            tell(Step(piece, settled[told:], tokens, round_))
            told = max(told, len(settled))
        transcript = run.finish()
        tell(Step(piece, (transcript.caption or "")[told:], (), transcript))
        return transcript

    def _rounds(self, run: Run, left: threading.Event) -> Generator[tuple[Round, str, tuple[Token, ...]]]:
        """Each block as it is committed, with the caption so far and the block's tokens."""
        seen, shared = 0, self._forwards
        if shared is not None:
            shared.request.left = left
        with (
            self._decoding,
            nullcontext() if shared is None else shared.clip(),
            closing(run.updates(shared)) as updates,
        ):
            for update in updates:
                _check(left)
                if isinstance(update.event, Round):
                    yield update.event, update.text.caption, tuple(run.tokens[seen:])
                    seen = len(run.tokens)


def _piece(run: Run, placeholders: Collection[int]) -> Piece:
    clip, start_s = run.clip, run.clip.start_s or 0.0
    ids = next((prompt.ids for prompt in run.prompts or () if prompt is not None), ())
    sounds = sum(id_ in placeholders for id_ in ids)
    return Piece(clip.piece or 0, start_s, clip.end_s or start_s + clip.duration_s, len(ids), sounds)


def _check(left: threading.Event) -> None:
    if left.is_set():
        raise ClientDisconnect


@contextmanager
def _file_of(sound: bytes) -> Generator[str]:
    """The path of a file in memory that holds a recording; on disk, and without a name, where the system has none."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("specdec"), "wb") as file:
            file.write(sound)
            file.flush()
            yield f"/proc/{os.getpid()}/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile("wb", prefix="specdec-") as file:
            file.write(sound)
            file.flush()
            yield file.name
