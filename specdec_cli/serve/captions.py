"""What a server does with recordings: captions them, many at a time, as `specdec batch` does. Calls block."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Final, cast

import torch
from starlette.requests import ClientDisconnect

from specdec_cli.captioner import Captioner
from specdec_cli.config.resolve import ResolvedConfig
from specdec_cli.decoding.length import capacity
from specdec_cli.errors import CheckpointError, ConfigError, SpecdecError
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
UNHEARD: Final = "The text of the messages was left out: these models follow the shipped instructions only."
_VARIANTS: Final = 32  # settings that are kept ready


@dataclass(frozen=True, slots=True)
class Heard:
    """A piece of a recording: its number and place, and what its prompt takes."""

    index: int
    start_s: float
    end_s: float
    prompt_tokens: int = 0
    audio_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """What a request is told as it happens: a block of a piece, or the piece's transcript."""

    piece: Heard
    text: str  # that the caption certainly gains
    tokens: tuple[Token, ...]  # that were committed
    made: Round | Transcript


@dataclass(frozen=True, slots=True)
class Order:
    """What is asked for: settings by dotted name, the recording, and texts in place of the shipped ones."""

    mode: Mode
    settings: Mapping[str, object]
    sound: bytes
    instruction: str | None = None
    system: str | None = None


class Captions:
    """Loaded models that caption recordings.

    Args:
        captioner: in the configured mode.
        resolved: its configuration, which requests vary.
        forwards: makes those of loaded models.
        room: clips that are decoded at a time.
    """

    def __init__(
        self, captioner: Captioner, resolved: ResolvedConfig, limits: ServeLimits, forwards: Forwards | None, room: int
    ) -> None:
        self.limits, self.loaded, self._resolved, self._forwards = limits, captioner, resolved, forwards
        self._longest_s = limits.recording_s if limits.clip_s is None else limits.clip_s
        self._variants: OrderedDict[str, Captioner] = OrderedDict()
        self._lock, self._most, self.under_way = threading.Lock(), room + limits.waiting, 0  # requests
        self._decoding, self._preparing = threading.Semaphore(room), threading.Semaphore(min(os.cpu_count() or 1, 4))
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
        alone = cast("tuple[Mode, ...]", tuple(self.loaded.config.models))
        return ("hybrid", "lossless", *alone) if len(alone) > 1 else alone

    def mode_of(self, model: str) -> Mode:
        """The mode that a model's name stands for. Raises ApiError where it is not offered."""
        for mode in self.modes:
            if model == PREFIX + mode:
                return mode
        offered = ", ".join(PREFIX + mode for mode in self.modes)
        raise ApiError(404, f"There is no such model here. This server has {offered}.", "model", "model_not_found")

    def submit(self, order: Order, tell: Callable[[Step], None], left: threading.Event) -> Future[None]:
        """Captions a recording in a thread, which calls `tell`.

        `left` is set when the client no longer waits: no further forward is made for it. Raises ApiError where too
        many wait; the future has ClientDisconnect, ApiError or SpecdecError.
        """
        with self._lock:
            if self.under_way >= self._most:
                says = f"{self._most} recordings are being captioned or wait for it, as many as may: try again soon."
                raise ApiError(429, says, code="queue_full", headers={"Retry-After": "1"})
            self.under_way += 1
        future = self._pool.submit(self._caption, order, tell, left)
        future.add_done_callback(self._ended)
        return future

    def close(self) -> None:
        """Ends after the recordings under way."""
        self._pool.shutdown(cancel_futures=True)
        if self._forwards is not None:
            self._forwards.close()

    def _ended(self, _: object) -> None:
        with self._lock:
            self.under_way -= 1

    def _variant(self, order: Order) -> tuple[Captioner, str | None]:
        """The captioner of an order, and its instruction, if the models take one of the client's own.

        Raises ConfigError where settings are wrong or contradict each other. A client's texts are not kept.
        """
        settings = {"decoding.mode": order.mode, **order.settings}
        own = {"prompt.text": order.instruction, "prompt.system": order.system}
        own = {name: text for name, text in own.items() if text is not None}
        with suppress(ConfigError):  # of the texts; all else is wrong without them as well
            if own:
                self._resolved.varied({**settings, **own}, "specdec")
                settings |= {name: text for name, text in own.items() if name == "prompt.system"}
                return self._varied(settings), order.instruction
        return self._varied(settings), None

    def _varied(self, settings: Mapping[str, object]) -> Captioner:
        key = json.dumps(settings, sort_keys=True)
        with self._lock:
            if (known := self._variants.get(key)) is not None:
                self._variants.move_to_end(key)
                return known
        config = self._resolved.varied(settings, "specdec").config
        most = self.limits.text_tokens
        if "decoding.max_new_tokens" in settings and config.decoding.max_new_tokens > most:
            raise ApiError(400, f"decoding.max_new_tokens may be {most} here, at most.", "specdec", "invalid_value")
        made = self.loaded.variant(config)
        if settings.keys().isdisjoint(("decoding.stop_strings", "prompt.system")):
            with self._lock:
                self._variants[key] = made
                if len(self._variants) > _VARIANTS:
                    self._variants.popitem(last=False)
        return made

    def _caption(self, order: Order, tell: Callable[[Step], None], left: threading.Event) -> None:
        captioner, instruction = self._variant(order)
        unheard = instruction is None and (order.instruction or order.system) is not None
        with _file_of(order.sound) as path:
            item = InputFile(path, prompt=instruction)
            try:
                with self._turn(self._preparing, left):
                    recording = captioner.recording(item, self._longest_s)
                says = [warning.replace(path, NAME) for warning in recording.warnings]
                recording = replace(recording, path=NAME, warnings=(*says, *([UNHEARD] if unheard else ())))
                runs = captioner.runs_of(recording, item)
                while True:
                    with self._turn(self._preparing, left):
                        run = next(runs, None)
                    if run is None:
                        return
                    if run.error is not None and (recording.whole or len(recording.cuts) == 1):
                        raise run.error
                    self._decode(captioner, run, tell, left)
            except SpecdecError as error:
                error.message = error.message.replace(path, NAME)
                if isinstance(error, CheckpointError) and not unheard and (order.instruction or order.system):
                    raise ApiError(400, error.message, "messages", type(error).__name__) from error
                raise

    def _require_fits(self, captioner: Captioner, run: Run) -> None:
        """Refuses a prompt that leaves no room for the text; a session would, as a failure of its own."""
        follow = capacity(captioner.config.decoding)
        for model, prompt in zip((captioner.pair.edge, captioner.pair.cloud), run.prompts or (None, None), strict=True):
            if model is not None and prompt is not None and len(prompt.ids) + follow > model.processor.context:
                says = f"The models take {model.processor.context} tokens, but the prompt has {len(prompt.ids)}"
                raise ApiError(400, f"{says}, and {follow} may follow.", "messages", "context_length_exceeded")

    def _decode(self, captioner: Captioner, run: Run, tell: Callable[[Step], None], left: threading.Event) -> None:
        """Tells each block of a piece, and its transcript: where there are others, that may be the line of an error."""
        piece, told = _piece(run, captioner.pair.writer.placeholders), 0
        self._require_fits(captioner, run)
        try:
            for block, caption, tokens in self._blocks(run, left) if run.error is None else ():
                settled = captioner.setup.settled(caption)
                tell(Step(piece, settled[told:], tokens, block))
                told = max(told, len(settled))
            transcript = run.finish()
        except SpecdecError as error:
            if told or run.clip.pieces is None:
                raise
            transcript = run.failed(error)
        tell(Step(piece, (transcript.caption or "")[told:], (), transcript))

    def _blocks(self, run: Run, left: threading.Event) -> Generator[tuple[Round, str, tuple[Token, ...]]]:
        """Each block as it is committed, with the caption so far and the block's tokens."""
        seen, shared = 0, self._forwards
        if shared is not None:
            shared.request.left = left
        with (
            self._turn(self._decoding, left),
            nullcontext() if shared is None else shared.clip(),
            closing(run.updates(shared)) as updates,
        ):
            for update in updates:
                _require_client(left)
                if isinstance(update.event, Round):
                    yield update.event, update.text.caption, tuple(run.tokens[seen:])
                    seen = len(run.tokens)

    @contextmanager
    def _turn(self, turns: threading.Semaphore, left: threading.Event) -> Generator[None]:
        """Within the block this thread has one of the places; raises ClientDisconnect if its client left meanwhile."""
        with turns:
            _require_client(left)
            yield


def _require_client(left: threading.Event) -> None:
    if left.is_set():
        raise ClientDisconnect


def _piece(run: Run, placeholders: Collection[int]) -> Heard:
    clip, start_s = run.clip, run.clip.start_s or 0.0
    ids = next((prompt.ids for prompt in run.prompts or () if prompt is not None), ())
    sounds = sum(id_ in placeholders for id_ in ids)
    return Heard(clip.piece or 0, start_s, clip.end_s or start_s + clip.duration_s, len(ids), sounds)


@contextmanager
def _file_of(sound: bytes) -> Generator[str]:
    """The path of a file that holds a recording: in memory, or, where the system has no such files, on disk for now."""
    if not hasattr(os, "memfd_create"):
        with tempfile.TemporaryDirectory(prefix="specdec-") as folder:
            path = os.path.join(folder, "recording")
            with open(path, "wb") as on_disk:
                on_disk.write(sound)
            yield path
        return
    with os.fdopen(os.memfd_create("specdec"), "wb") as file:
        file.write(sound)
        file.flush()
        yield f"/proc/{os.getpid()}/fd/{file.fileno()}"
