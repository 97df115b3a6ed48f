"""Captions printed, kept and counted one after the other, as `caption` and `listen` do."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from specdec_cli.errors import SpecdecError, typed
from specdec_cli.format import marked, seconds

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner
    from specdec_cli.console.view import View
    from specdec_cli.inputs.recording import InputFile
    from specdec_cli.run import Run
    from specdec_cli.transcript import Transcript

_LISTED: Final = 5
Append = Callable[["Transcript"], None]
"""Takes a transcript that is to be kept."""


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
    append: Append | None
    json: bool
    labelled: bool
    done: int = 0
    failed: int = 0
    before: int = 0
    empty: int = 0
    _audio_s: float = 0.0
    _pieces: bool = False
    _emotions: Counter[str] = field(default_factory=Counter)
    _refused: list[str] = field(default_factory=list)  # pieces without a caption, by their times
    _started: float | None = None  # when the first was begun

    def keep(self, file: str, transcripts: Iterable[tuple[Transcript, SpecdecError | None]]) -> None:
        """Prints, records and counts the transcripts of one file, and shows its errors.

        Args:
            file: as given.
            transcripts: one per segment, with its error.

        Raises:
            TranscriptError: the output file cannot be written, which the next file would not change.
        """
        for transcript, error in transcripts:
            if error is not None:
                self.failed += 1
                self.view.failed(file, error)
                if transcript.pieces is not None:
                    self._refused.append(_place(transcript, "–", " s"))
            self._print(file, transcript)
            if self.append is not None:
                self.append(transcript)
            if error is None:
                self.done += 1
                self._count(transcript)

    def repeat(self, file: str, transcripts: Iterable[Transcript]) -> None:
        """Prints what an earlier run captioned."""
        for transcript in transcripts:
            self.before += 1
            self._print(file, transcript)

    def finished(self) -> None:
        """Shows how many recordings or pieces there were, and of recordings in pieces what they hold."""
        facts = [f"{self.before} done before"] if self.before else []
        facts += [f"{self.empty} without anything to describe, as found before"] if self.empty else []
        if self._pieces:
            facts += [", ".join(f"{name} {times}" for name, times in self._emotions.most_common())]
            facts += [f"{seconds(self._audio_s)} of audio in {seconds(time.monotonic() - (self._started or 0.0))}"]
        if self._refused:
            more = f" and {len(self._refused) - _LISTED} more" if self._refused[_LISTED:] else ""
            facts += [f"without a caption: {', '.join(self._refused[:_LISTED])}{more}"]
        self.view.finished_all(self.done, self.failed, list(filter(None, facts)))

    def _print(self, file: str, transcript: Transcript) -> None:
        from specdec_cli.console.plain import print_caption, write_line

        if self.json:
            write_line(transcript.to_json())
        elif transcript.caption is not None:
            columns = [file] if self.labelled else []
            if transcript.pieces is not None:
                columns += _place(transcript, "\t").split("\t")
            speaker = f"{transcript.speaker}: " if transcript.pieces is not None and transcript.speaker else ""
            text = marked(speaker + transcript.caption, " ".join(transcript.flags))
            print_caption(text, before=columns, shown=self.view.shows_caption)

    def _count(self, transcript: Transcript) -> None:
        self._audio_s += transcript.duration_s or 0.0
        if transcript.pieces is not None:
            from specdec_cli.labels import Lexicon

            self._pieces = True
            labels = transcript.labels or Lexicon.load().labels(transcript.caption or "", transcript.language)
            self._emotions[labels.get("emotion") or "no emotion"] += 1

    def transcripts(
        self, captioner: Captioner, file: str, runs: Iterable[Run], item: InputFile | None = None
    ) -> Iterator[tuple[Transcript, SpecdecError | None]]:
        """What `keep` takes, shown while it comes about. What is wrong with `file` never costs the next one."""
        setup, self._started = captioner.setup, self._started or time.monotonic()
        try:
            for run in runs:
                error = self._watch(run)
                yield (setup.error_line(file, error, run.clip), error) if error else (run.finish(), None)
        except Exception as error:
            known = typed(error)
            content = None if item is None else item.content_of(known)
            yield setup.error_line(file, known, sha256=content), known

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


def _place(transcript: Transcript, between: str, unit: str = "") -> str:
    return f"{transcript.start_s or 0.0:.2f}{between}{transcript.end_s or 0.0:.2f}{unit}"
