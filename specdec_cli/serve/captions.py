"""Captions the recordings of requests, many at a time, as `specdec batch` does. Calls block."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Callable, Collection, Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, cast

import torch

from specdec_cli.captioner import Captioner
from specdec_cli.config.resolve import ResolvedConfig
from specdec_cli.errors import CheckpointError, ContextError, SpecdecError
from specdec_cli.inputs.recording import InputFile
from specdec_cli.models.engine import encoders_and_threads
from specdec_cli.run import Run
from specdec_cli.serve.api_error import ApiError
from specdec_cli.serve.bodies import require_client
from specdec_cli.serve.engine import ServeEngine
from specdec_cli.serve.limits import ServeLimits
from specdec_cli.serve.requests import PREFIX
from specdec_cli.transcript import Transcript
from specdec_cli.transcript.round import Round
from specdec_cli.types import Mode, Token

NAME: Final = "The recording"  # in messages, in place of the path of a file that is gone
IGNORED_TEXTS: Final = "The text of the messages was left out: these models follow the shipped instructions only."
_VARIANTS: Final = 32  # captioners of different settings that are kept


@dataclass(frozen=True, slots=True)
class ServedPiece:
    """A piece of a recording: its number and place, and the tokens of its prompt."""

    index: int
    start_s: float
    end_s: float
    prompt_tokens: int
    audio_tokens: int  # placeholders in the prompt


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a request: a block of a piece, or the piece's transcript."""

    piece: ServedPiece
    text: str  # added to the caption; later blocks cannot change it
    tokens: tuple[Token, ...]  # committed by the block
    made: Round | Transcript


class Captions:
    """Loaded models that caption recordings.

    Args:
        captioner: of the configured mode.
        resolved: its configuration, which requests vary.
        engine: makes the forwards of loaded models; None: all models are remote.
        room: clips that are decoded at a time.
    """

    def __init__(
        self, captioner: Captioner, resolved: ResolvedConfig, limits: ServeLimits, engine: ServeEngine | None, room: int
    ) -> None:
        self.limits, self.loaded, self._resolved, self._engine = limits, captioner, resolved, engine
        self._captioner_of = lru_cache(_VARIANTS)(lambda settings: self._varied(json.loads(settings)))
        self._lock, self._most, self.under_way = threading.Lock(), room + limits.waiting, 0  # requests
        self._decoding, self._preparing = threading.Semaphore(room), threading.Semaphore(min(os.cpu_count() or 1, 4))
        models = captioner.pair.loaded
        threads = encoders_and_threads(models)[1] if models else torch.get_num_threads()
        self._pool = ThreadPoolExecutor(2 * room, "specdec caption", torch.set_num_threads, (threads,))

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The modes for which all models are loaded."""
        alone = cast("tuple[Mode, ...]", tuple(self.loaded.config.models))
        return ("hybrid", "lossless", *alone) if len(alone) > 1 else alone

    def mode_of(self, model: str) -> Mode:
        """The mode that a model's name stands for. Raises ApiError if it is not offered."""
        for mode in self.modes:
            if model == PREFIX + mode:
                return mode
        offered = ", ".join(PREFIX + mode for mode in self.modes)
        raise ApiError(404, f"There is no such model here. This server has {offered}.", "model", "model_not_found")

    def submit(self, work: Callable[[], None]) -> Future[None]:
        """Runs a request's work in a thread. Raises ApiError if too many requests wait."""
        with self._lock:
            if self.under_way >= self._most:
                says = f"{self._most} recordings are being captioned or wait for it, as many as may: try again soon."
                raise ApiError(429, says, code="queue_full", headers={"Retry-After": "1"})
            self.under_way += 1
        future = self._pool.submit(work)
        future.add_done_callback(self._ended)
        return future

    def close(self) -> None:
        """Waits for running recordings, and ends the threads."""
        self._pool.shutdown(cancel_futures=True)
        if self._engine is not None:
            self._engine.close()

    def steps(
        self, settings: Mapping[str, object], texts: Mapping[str, str], sound: bytes, left: threading.Event
    ) -> Generator[Step]:
        """The steps of a recording, for a thread of `submit`; once `left` is set, no further forward is made.

        `texts` are settings, too: `prompt.instruction` and `prompt.system`, in place of the shipped ones.

        Raises:
            ClientDisconnect: `left` is set.
            ApiError: the request is at fault.
            SpecdecError: the recording cannot be captioned, or a model fails.
        """
        captioner, follows = self._variant(settings, texts)
        with _file_of(sound) as path:
            del sound
            try:
                with self._turn(self._preparing, left):
                    recording = captioner.recording(InputFile(path), self.limits.clip_s or self.limits.recording_s)
                says = [warning.replace(path, NAME) for warning in recording.warnings]
                says += [IGNORED_TEXTS] if texts and not follows else []
                runs = captioner.runs_of(replace(recording, path=NAME, warnings=tuple(says)))
                captioned, lost = False, None  # whether a piece is captioned, and the error of the first that is not
                while True:
                    with self._turn(self._preparing, left):
                        run = next(runs, None)
                    if run is None:
                        break
                    failed = yield from self._steps_of(run, captioner, left)
                    captioned |= failed is None
                    lost = lost or failed
                if lost is not None and not captioned:
                    raise lost
            except SpecdecError as error:
                error.message = error.message.replace(path, NAME)
                if follows and isinstance(error, CheckpointError):
                    raise ApiError(400, error.message, "messages", type(error).__name__) from error
                raise

    def _steps_of(
        self, run: Run, captioner: Captioner, left: threading.Event
    ) -> Generator[Step, None, SpecdecError | None]:
        """Yields each block of a piece, and its transcript: of one among several pieces, it may be that of a failure.

        Returns the error of such a failure; None: the piece is captioned.
        """
        piece, sent, seen, engine = _piece(run, captioner.pair.writer.placeholders), 0, 0, self._engine
        if engine is not None:
            engine.request.left = left
        try:
            if run.error is not None:
                raise run.error
            with (
                self._turn(self._decoding, left),
                nullcontext() if engine is None else engine.clip(),
                closing(run.updates(engine)) as updates,
            ):
                for update in updates:
                    require_client(left)
                    if isinstance(update.event, Round):
                        settled = captioner.setup.settled(update.text.caption)
                        yield Step(piece, settled[sent:], tuple(run.tokens[seen:]), update.event)
                        sent, seen = max(sent, len(settled)), len(run.tokens)
            transcript, failed = run.finish(), None
        except SpecdecError as error:
            if sent or run.clip.pieces is None or isinstance(error, ContextError):
                raise
            transcript, failed = run.failed(error), error
        yield Step(piece, (transcript.caption or "")[sent:], (), transcript)
        return failed

    def _ended(self, _: object) -> None:
        with self._lock:
            self.under_way -= 1

    def _variant(self, settings: Mapping[str, object], texts: Mapping[str, str]) -> tuple[Captioner, bool]:
        """The captioner of a request, and whether it follows the client's own texts.

        Models that were trained on the shipped prompts alone follow other texts only with `prompt.force`. Raises
        ConfigError if settings are wrong, or contradict each other.
        """
        stops = "decoding.stop_strings" in settings
        plain = self._varied(settings) if stops else self._captioner_of(json.dumps(settings, sort_keys=True))
        if texts and (plain.config.prompt.force or not plain.setup.shipped_only):
            return self._varied({**settings, **texts}), True
        return plain, False

    def _varied(self, settings: Mapping[str, object]) -> Captioner:
        config, most = self._resolved.varied(settings, "specdec").config, self.limits.text_tokens
        if "decoding.max_new_tokens" in settings and config.decoding.max_new_tokens > most:
            raise ApiError(400, f"decoding.max_new_tokens may be {most} here, at most.", "specdec", "invalid_value")
        return self.loaded.variant(config)

    @contextmanager
    def _turn(self, turns: threading.Semaphore, left: threading.Event) -> Generator[None]:
        """Within the block this thread has one of the turns. Raises ClientDisconnect if its client left meanwhile."""
        with turns:
            require_client(left)
            yield


def _piece(run: Run, placeholders: Collection[int]) -> ServedPiece:
    clip, start_s = run.clip, run.clip.start_s or 0.0
    ids = next((prompt.ids for prompt in run.prompts or () if prompt is not None), ())
    sounds = sum(id_ in placeholders for id_ in ids)
    return ServedPiece(clip.piece or 0, start_s, clip.end_s or start_s + clip.duration_s, len(ids), sounds)


@contextmanager
def _file_of(sound: bytes) -> Generator[str]:
    """The path of a file with a recording, for the block: in memory, or on disk if the system has no such files."""
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
