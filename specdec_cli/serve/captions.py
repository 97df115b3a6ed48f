"""Captions the recordings of requests, many at a time, as `specdec batch` does."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import (
    AbstractContextManager,
    ExitStack,
    aclosing,
    asynccontextmanager,
    closing,
    contextmanager,
    nullcontext,
)
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from io import FileIO
from pathlib import Path
from typing import Final, cast

import torch

from specdec_cli.audio.decode import require_decodable
from specdec_cli.captioner import Captioner
from specdec_cli.config.resolve import ResolvedConfig
from specdec_cli.errors import AudioError, CheckpointError, ContextError, SpecdecError
from specdec_cli.inputs.recording import InputFile
from specdec_cli.models.engine import encoders_and_threads
from specdec_cli.run import Run
from specdec_cli.serve.api_error import ApiError
from specdec_cli.serve.bodies import each_in_thread, in_thread
from specdec_cli.serve.engine import ServeEngine
from specdec_cli.serve.limits import ServeLimits
from specdec_cli.serve.requests import PREFIX
from specdec_cli.serve.turns import Turns
from specdec_cli.transcript import Transcript
from specdec_cli.transcript.round import Round
from specdec_cli.types import Mode, Token

NAME: Final = "The recording"  # in messages, in place of the path of a file that is gone
IGNORED_TEXTS: Final = "The text of the messages was left out: these models follow the shipped instructions only."
_OWN_TEXTS: Final = {"decoding.stop_strings", "prompt.instruction"}  # settings that may hold texts of a client's
_VARIANTS: Final = 32  # captioners of different settings that are kept
_LONG_S: Final = 60.0  # from which on a recording may take seconds to read
_BYTES_A_SECOND: Final = 1 << 15  # of a recording whose length is not in its header


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
    tokens: tuple[Token, ...]  # committed by the block, or in all if no block was a step
    made: Round | Transcript
    failed: SpecdecError | None = None  # why the piece has no caption


class SoundFile:
    """A recording as a file: in memory, or on disk if the system has no such files. It is gone after `close`."""

    def __init__(self, sound: bytes) -> None:
        self.size = len(sound)
        if hasattr(os, "memfd_create"):
            file = os.fdopen(os.memfd_create("specdec"), "wb")
            file.write(sound)
            file.flush()
            self.path, self.close = f"/proc/{os.getpid()}/fd/{file.fileno()}", file.close
        else:
            folder = tempfile.TemporaryDirectory(prefix="specdec-")
            self.path, self.close = os.path.join(folder.name, "recording"), folder.cleanup
            Path(self.path).write_bytes(sound)

    @property
    def is_long(self) -> bool:
        """Whether reading it takes seconds, by the length that it declares."""
        try:
            with FileIO(self.path) as file:
                declared_s = require_decodable(self.path, file)
        except AudioError:  # which reading it raises
            declared_s = None
        return (declared_s or self.size / _BYTES_A_SECOND) > _LONG_S

    def end(self) -> None:
        """Ends a reading under way, which fails."""
        os.truncate(self.path, 0)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of a request for its recording."""

    file: SoundFile
    is_long: bool
    captioner: Captioner
    follows: bool  # whether the models follow the client's own texts
    warnings: tuple[str, ...]  # about the request


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
        self._most, self.under_way = room + limits.waiting, 0  # requests
        readers = min(os.cpu_count() or 1, 4)
        # long recordings are read beside short ones, and later pieces leave a quarter of the places to first ones
        self._reading, self._reading_long = Turns(readers), Turns(max(readers - 1, 1))
        self._decoding, self._later = Turns(room), Turns(max(room - room // 4, 1))
        models = captioner.pair.loaded
        threads = encoders_and_threads(models)[1] if models else torch.get_num_threads()
        self._pool = ThreadPoolExecutor(room + 2 * readers, "specdec caption", torch.set_num_threads, (threads,))

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The modes for which all models are loaded."""
        alone = cast("tuple[Mode, ...]", tuple(self.loaded.config.models))
        return ("hybrid", "lossless", *alone) if len(alone) > 1 else alone

    def mode_of(self, model: str) -> Mode:
        """The mode that a model's name means. Raises ApiError if it is not offered."""
        for mode in self.modes:
            if model == PREFIX + mode:
                return mode
        offered = ", ".join(PREFIX + mode for mode in self.modes)
        raise ApiError(404, f"There is no such model here. This server has {offered}.", "model", "model_not_found")

    @contextmanager
    def place(self) -> Iterator[None]:
        """A request's place, for the block. Raises ApiError if too many requests have one."""
        if self.under_way >= self._most:
            says = f"{self._most} recordings are being captioned or wait for it, as many as may: try again soon."
            raise ApiError(429, says, code="queue_full", headers={"Retry-After": "1"})
        self.under_way += 1
        try:
            yield
        finally:
            self.under_way -= 1

    def close(self) -> None:
        """Waits for running recordings, and ends the threads."""
        self._pool.shutdown(cancel_futures=True)
        if self._engine is not None:
            self._engine.close()

    async def steps(self, wanted: Wanted, client: str, *, blocks: bool) -> AsyncGenerator[Step]:
        """The steps of a recording, whose turns are those of `client`. Once this is closed no forward is made.

        Without `blocks` they are transcripts only, and each has the text and the tokens of its piece.

        Raises:
            ApiError: the request is at fault.
            SpecdecError: the recording cannot be captioned, or a model fails.
        """
        captioner, file, left = wanted.captioner, wanted.file, threading.Event()
        lost: SpecdecError | None = None  # of the first piece without a caption
        captioned, ahead = False, ExitStack()
        try:
            if not wanted.is_long:  # reading a long one takes seconds, in which later pieces of others go on
                ahead.enter_context(self._ahead())
            async with (self._reading_long if wanted.is_long else self._reading).turn(client):
                runs, run, count = await in_thread(self._pool, partial(self._begun, wanted), file.end)
            for number in range(count):
                later = number > 0
                if later:
                    ahead.close()  # a first piece that could not be read has not
                    async with self._reading.turn(client, later=True):
                        run = await in_thread(self._pool, partial(next, runs), file.end)
                async with self._turn(client, later=later):
                    if wanted.is_long and not later:
                        ahead.enter_context(self._ahead())
                    work = partial(self._steps_of, run, captioner, left, ahead, later=later, blocks=blocks)
                    async with aclosing(each_in_thread(self._pool, work, left.set)) as steps:
                        async for step in steps:
                            lost = lost or step.failed
                            captioned |= isinstance(step.made, Transcript) and step.failed is None
                            yield step
                del run, work
            if lost is not None and not captioned:
                raise lost
        except SpecdecError as error:
            error.message = error.message.replace(file.path, NAME)
            if wanted.follows and isinstance(error, CheckpointError):
                raise ApiError(400, error.message, "messages", type(error).__name__) from error
            raise
        finally:
            ahead.close()
            del lost

    def _begun(self, wanted: Wanted) -> tuple[Iterator[Run], Run, int]:
        """Opens a recording: the runs of its pieces, of which the first is taken already, and how many there are."""
        captioner, file, longest_s = wanted.captioner, wanted.file, self.limits.clip_s or self.limits.recording_s
        recording = captioner.reader.open(InputFile(file.path), longest_s)
        says = [*wanted.warnings, *(warning.replace(file.path, NAME) for warning in recording.warnings)]
        runs = captioner.runs_of(replace(recording, path=NAME, warnings=tuple(says)))
        return runs, next(runs), len(recording.spans)

    def _ahead(self) -> AbstractContextManager[None]:
        """See `ServeEngine.ahead`."""
        return nullcontext() if self._engine is None else self._engine.ahead()

    @asynccontextmanager
    async def _turn(self, client: str, *, later: bool) -> AsyncIterator[None]:
        async with self._later.turn(client) if later else nullcontext(), self._decoding.turn(client, later=later):
            yield

    def _steps_of(
        self, run: Run, captioner: Captioner, left: threading.Event, ahead: ExitStack, *, later: bool, blocks: bool
    ) -> Iterator[Step]:
        """Yields each block of a piece, and its transcript: of one among several pieces, it may be that of a failure.

        Once `left` is set, no further forward is made, and ClientDisconnect is raised. Closes `ahead` at the end.
        """
        piece, sent, seen, engine = _piece(run, captioner.pair.processor.placeholders), 0, 0, self._engine
        try:
            if run.error is not None:
                raise run.error
            with (
                ahead,
                nullcontext() if engine is None else engine.request(left, later=later),
                nullcontext() if engine is None else engine.clip(),
                closing(run.updates(engine)) as updates,
            ):
                for update in updates:
                    if left.is_set():
                        return
                    if blocks and isinstance(update.event, Round):
                        settled = captioner.caption_rules.settled(update.text.caption)
                        yield Step(piece, settled[sent:], tuple(run.tokens[seen:]), update.event)
                        sent, seen = max(sent, len(settled)), len(run.tokens)
            transcript = run.finish()
            yield Step(piece, (transcript.caption or "")[sent:], tuple(run.tokens[seen:]), transcript)
        except SpecdecError as error:
            if sent or run.started.pieces is None or isinstance(error, ContextError):
                raise
            yield Step(piece, "", (), run.failed(error), error)

    def wanted(self, settings: Mapping[str, object], texts: Mapping[str, str], sound: bytes, says: list[str]) -> Wanted:
        """The settings of a request, whose warnings so far are `says`.

        `texts` are settings, too: `prompt.instruction` and `prompt.system`, in place of the shipped ones. Models that
        were trained on the shipped prompts alone follow other texts only with `prompt.force`. Raises ConfigError if
        settings are wrong, or contradict each other.
        """
        own = _OWN_TEXTS & settings.keys()  # which are not kept
        captioner = self._varied(settings) if own else self._captioner_of(json.dumps(settings, sort_keys=True))
        follows = bool(texts) and (captioner.config.prompt.force or not captioner.shared.shipped_only)
        if follows:
            captioner = self._varied({**settings, **texts})
        warnings = (*says, *((IGNORED_TEXTS,) if texts and not follows else ()))
        file = SoundFile(sound)
        return Wanted(file, file.is_long, captioner, follows, warnings)

    def _varied(self, settings: Mapping[str, object]) -> Captioner:
        config, most = self._resolved.varied(settings, "specdec").config, self.limits.text_tokens
        if "decoding.max_new_tokens" in settings and config.decoding.max_new_tokens > most:
            raise ApiError(400, f"decoding.max_new_tokens may be {most} here, at most.", "specdec", "invalid_value")
        return self.loaded.variant(config)


def _piece(run: Run, placeholders: Collection[int]) -> ServedPiece:
    clip, start_s = run.started, run.started.start_s or 0.0
    edge, cloud = run.prompts or (None, None)
    prompt = edge if cloud is None or edge is not None else cloud()
    ids = () if prompt is None else prompt.ids
    sounds = sum(id_ in placeholders for id_ in ids)
    return ServedPiece(clip.piece or 0, start_s, clip.end_s or start_s + clip.duration_s, len(ids), sounds)
