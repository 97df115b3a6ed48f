"""Captions printed, kept and counted one after the other, as `caption` and `listen` do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specdec_cli.console.plain import print_caption, write_line
from specdec_cli.console.view import View
from specdec_cli.errors import SpecdecError, typed
from specdec_cli.format import marked
from specdec_cli.inputs.recording import InputFile
from specdec_cli.transcript import Transcript

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner
    from specdec_cli.run import Run


@dataclass
class Job:
    """Captions files and counts how that went.

    Attributes:
        append: takes each transcript; None: nothing is kept.
        json: print transcripts on stdout instead of captions.
        labelled: write the file's name before each caption.
        done, failed, before: recordings or pieces captioned, without a caption, and captioned by an earlier run.
        empty: recordings or pieces in which an earlier run found nothing to describe.
    """

    view: View
    append: Callable[[Transcript], None] | None
    json: bool
    labelled: bool
    done: int = 0
    failed: int = 0
    before: int = 0
    empty: int = 0

    def keep(self, file: str, transcripts: Iterable[tuple[Transcript, SpecdecError | None]]) -> None:
        """Prints, records and counts the transcripts of one file, one per segment, and shows their errors.

        Raises:
            TranscriptError: the output file cannot be written, which the next file would not change.
        """
        for transcript, error in transcripts:
            if error is not None:
                self.failed += 1
                self.view.failed(file, error)
            self._print(file, transcript)
            if self.append is not None:
                self.append(transcript)
            self.done += error is None

    def repeat(self, file: str, transcripts: Iterable[Transcript]) -> None:
        """Prints what an earlier run captioned."""
        for transcript in transcripts:
            self.before += 1
            self._print(file, transcript)

    def finished(self) -> None:
        """Shows how many recordings or pieces there were."""
        facts = ((self.before, "done before"), (self.empty, "without anything to describe, as found before"))
        self.view.finished_all(self.done, self.failed, [f"{number} {what}" for number, what in facts if number])

    def transcripts(
        self, captioner: Captioner, file: str, runs: Iterable[Run], item: InputFile | None = None
    ) -> Iterator[tuple[Transcript, SpecdecError | None]]:
        """What `keep` takes, shown while it comes about. What is wrong with `file` never costs the next one."""
        setup = captioner.setup
        try:
            for run in runs:
                error = self._watch(run)
                yield (setup.error_line(file, error, run.clip), error) if error else (run.finish(), None)
        except Exception as error:
            known = typed(error)
            yield setup.error_line(file, known, sha256=item.content_of(known) if item else None), known

    def _watch(self, run: Run) -> SpecdecError | None:
        """Shows a run from beginning to end; returns what stopped it."""
        if run.error is not None:
            return run.error
        try:
            for update in run:
                self.view.show(update)
        except Exception as error:
            return typed(error)
        return None

    def _print(self, file: str, transcript: Transcript) -> None:
        if self.json:
            write_line(transcript.to_json())
        elif transcript.caption is not None:
            columns, speaker = [file] if self.labelled else [], ""
            if transcript.pieces is not None:
                columns += [f"{transcript.start_s or 0.0:.2f}", f"{transcript.end_s or 0.0:.2f}"]
                speaker = f"{transcript.speaker}: " if transcript.speaker else ""
            text = marked(speaker + transcript.caption, " ".join(transcript.flags))
            print_caption(text, before=columns, shown=self.view.shows_caption)
