"""Many prepared clips through one loaded pair, as the batch command wants them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from specdec_cli.captioner import Captioner
from specdec_cli.decoding.build import build_engine
from specdec_cli.decoding.rows import Rows
from specdec_cli.errors import SpecdecError
from specdec_cli.models.family import PromptInputs
from specdec_cli.run import Clip, Run, Setup
from specdec_cli.transcript.schema import Transcript
from specdec_cli.types import Event, Finished

AUTO_BATCH_SIZE: Final = 16
"""Clips decoded together where nothing else is asked for."""


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

    def run(self, clips: Iterable[Prepared]) -> Iterator[tuple[Prepared, Transcript | SpecdecError]]:
        """Each clip with its transcript, or with what went wrong, in order of finishing.

        Clips are pulled as rows become free. Closing the generator leaves nothing behind.
        """
        waiting = iter(clips)
        rows: Rows[_Clip] = Rows(patience=self._captioner.options.most_drafted)
        exhausted = False
        try:
            while True:
                happened: list[tuple[_Clip, Event | SpecdecError]] = []
                while not exhausted and len(rows) < self.batch_size:
                    prepared = next(waiting, None)
                    if prepared is None:
                        exhausted = True
                    else:
                        happened += self._admit(rows, _Clip(prepared))
                if len(rows):
                    happened += rows.step()
                elif exhausted and not happened:
                    return
                for clip, what in happened:
                    if isinstance(what, SpecdecError):
                        yield clip.prepared, what
                        continue
                    clip.events.append(what)
                    if isinstance(what, Finished):
                        yield clip.prepared, self._transcript(clip)
        finally:
            rows.close()

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
