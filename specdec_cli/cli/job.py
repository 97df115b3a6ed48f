"""Recordings captioned one after the other: what each gives goes to the display, to stdout and to the output file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from specdec_cli.console import print_caption, show, write_line
from specdec_cli.errors import SpecdecError, typed
from specdec_cli.transcript.writer import append_transcript

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner
    from specdec_cli.console import View
    from specdec_cli.run import Run
    from specdec_cli.transcript import Transcript
    from specdec_cli.types import Update


class Job:
    """Captions files and counts how that went.

    Args:
        captioner: the loaded models.
        view: the display.
        output: file to append transcripts to, or None.
        json: print transcripts on stdout instead of captions.
        labelled: write the file's name before each caption.
        keep_updates: keep what happened in `updates`, for a picture of it.
    """

    def __init__(
        self,
        captioner: Captioner,
        view: View,
        output: Path | None,
        *,
        json: bool,
        labelled: bool,
        keep_updates: bool = False,
    ) -> None:
        self.done = 0
        self.failed = 0
        self.updates: list[Update] = []
        self._keep_updates = keep_updates
        self._captioner = captioner
        self._view = view
        self._output = output
        self._json = json
        self._labelled = labelled

    def caption(self, file: str) -> None:
        """Captions one file; what is wrong with it is shown, recorded and counted, and never costs the next one.

        Raises:
            TranscriptError: the output file cannot be written, which the next file would not change.
        """
        for transcript, error in self._transcripts(file):
            if error is not None:
                self.failed += 1
                self._view.failed(file, error)
            elif not self._json:
                print_caption(transcript.caption or "", view=self._view, label=file if self._labelled else None)
            if self._json:
                write_line(transcript.to_json())
            if self._output is not None:
                append_transcript(self._output, transcript)
            self.done += error is None

    def _transcripts(self, file: str) -> Iterator[tuple[Transcript, SpecdecError | None]]:
        """One transcript per segment of `file`, with the error that it tells of; shown while it comes about."""
        setup = self._captioner.setup
        try:
            for run in self._captioner.runs(file):
                error = self._watch(run)
                yield (setup.error_line(file, error, run.clip), error) if error else (run.finish(), None)
        except Exception as error:
            known = typed(error)
            yield setup.error_line(file, known), known

    def _watch(self, run: Run) -> SpecdecError | None:
        """Shows a run from beginning to end; returns what stopped it."""
        if run.error is not None:
            return run.error
        try:
            for update in run:
                show(self._view, update)
                if self._keep_updates:
                    self.updates.append(update)
        except Exception as error:
            return typed(error)
        return None
