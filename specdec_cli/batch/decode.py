"""Many prepared clips through one loaded pair, as the batch command wants them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

from specdec_cli.batch.cores import shared_cores
from specdec_cli.captioner import Captioner
from specdec_cli.decoding.build import build_engine
from specdec_cli.decoding.rows import Rows
from specdec_cli.errors import SpecdecError
from specdec_cli.models.encoders import Encoders
from specdec_cli.models.family import PromptInputs
from specdec_cli.run import Clip, Run, Setup
from specdec_cli.transcript.schema import Transcript
from specdec_cli.types import Event, Finished

AUTO_BATCH_SIZE: Final = 16
"""Clips decoded together where nothing else is asked for."""

_FIRST: Final = 4  # of them until one is done: a full batch would keep whoever watches waiting for its first caption


@dataclass(frozen=True, slots=True)
class Prepared:
    """A clip that only needs decoding.

    Attributes:
        key: whatever the caller recognises it by.
        clip: the recording, or a segment of one.
        edge, cloud: the prompt for each model that the mode uses.
        audio_s: time spent on decoding the audio and on its features, seconds.
        setup: what the transcript says of the run; language and prompt may differ from clip to clip.
    """

    key: object
    clip: Clip
    edge: PromptInputs | None
    cloud: PromptInputs | None
    audio_s: float
    setup: Setup


class Source(Protocol):
    """Where clips come from, as they get ready."""

    def take(self, *, wait: bool) -> Prepared | None:
        """The next clip; None if none is ready or, having waited for one, if there are no more."""


class BatchCaptioner:
    """Captions prepared clips, several at a time.

    Every clip gets the text that it would get alone. Of its transcript's times, those of forwards are its share of
    forwards made for several clips, by the number of tokens it fed; `ttft_ms` and `total_ms` run from its admission
    by the clock, so its neighbours' work is in them, and the figures of all clips do not add up to the wall time.
    `cpu_percent` is null.

    Args:
        captioner: the loaded pair and its settings.
        batch_size: most clips that are decoded together; None: as many as pays.
    """

    def __init__(self, captioner: Captioner, batch_size: int | None) -> None:
        self._captioner = captioner
        self.batch_size = AUTO_BATCH_SIZE if batch_size is None else batch_size

    def run(self, source: Source) -> Iterator[tuple[Prepared, Transcript | SpecdecError]]:
        """Each clip with its transcript, or with what went wrong, in order of finishing.

        Clips are taken as rows become free, and waited for only while there is nothing to decode. Closing the
        generator leaves nothing behind.
        """
        with shared_cores(self._captioner.pair) as encoders:
            yield from self._run(source, encoders)

    def _run(self, source: Source, encoders: Encoders | None) -> Iterator[tuple[Prepared, Transcript | SpecdecError]]:
        rows: Rows[_Clip] = Rows(self._captioner.options.most_drafted, encoders)
        room, abreast = min(self.batch_size, _FIRST), encoders.threads if encoders else 1
        try:
            while True:
                happened = self._admit_ready(rows, source, room, abreast)
                if not happened and not len(rows):
                    return
                happened += rows.step()
                for clip, what in happened:
                    if isinstance(what, SpecdecError):
                        yield clip.prepared, what
                        continue
                    clip.events.append(what)
                    if isinstance(what, Finished):
                        room = self.batch_size
                        yield clip.prepared, self._transcript(clip)
        finally:
            rows.close()

    def _admit_ready(
        self, rows: Rows[_Clip], source: Source, room: int, abreast: int
    ) -> list[tuple[_Clip, Event | SpecdecError]]:
        """Lets clips join that are ready.

        Args:
            rows: those in flight.
            source: where clips come from.
            room: most clips in flight.
            abreast: most of them that still have to be heard, so that a forward never holds up the others by the
                audio and the prompts of many.
        """
        happened: list[tuple[_Clip, Event | SpecdecError]] = []
        while len(rows) < room and rows.starting < abreast:
            prepared = source.take(wait=not len(rows) and not happened)
            if prepared is None:
                break
            happened += self._admit(rows, _Clip(prepared))
        return happened

    def _admit(self, rows: Rows[_Clip], clip: _Clip) -> list[tuple[_Clip, Event | SpecdecError]]:
        pair, options = self._captioner.pair, self._captioner.options
        try:
            engine = build_engine(pair, options, clip.prepared.edge, clip.prepared.cloud)
        except SpecdecError as error:
            return [(clip, error)]
        return rows.admit(clip, engine)

    def _transcript(self, clip: _Clip) -> Transcript:
        prepared, writer = clip.prepared, self._captioner.pair.writer
        return Run(prepared.setup, prepared.clip, clip, writer, prepared.audio_s, None, alone=False).finish()


@dataclass(slots=True, eq=False)
class _Clip:
    """A clip in flight and what has happened to it so far."""

    prepared: Prepared
    events: list[Event] = field(default_factory=list)

    def run(self) -> Iterator[Event]:
        """What happened, once more, for whoever writes the transcript."""
        return iter(self.events)
