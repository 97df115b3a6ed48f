"""`specdec caption`: recordings to captions, one after the other, with a live view."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from specdec_cli.cli import options
from specdec_cli.cli.startup import labelling, load_captioner, require_shown
from specdec_cli.errors import SpecdecError, typed
from specdec_cli.format import marked, seconds

if TYPE_CHECKING:
    from specdec_cli.batch.output_file import Entry
    from specdec_cli.captioner import Captioner
    from specdec_cli.console.view import View
    from specdec_cli.inputs.recording import InputFile
    from specdec_cli.run import Run
    from specdec_cli.transcript import Transcript

_LISTED: Final = 5


def caption(
    context: typer.Context,
    paths: options.Paths,
    edge: options.EdgeModel = None,
    cloud: options.CloudModel = None,
    source: options.ConfigFile = None,
    settings: options.Settings = None,
    language: options.Language = None,
    style: options.Style = None,
    prompt: options.Prompt = None,
    force_prompt: options.ForcePrompt = None,
    segment: options.Segment = None,
    start: options.Start = None,
    end: options.End = None,
    labels: options.Labels = False,
    lexicon: options.LexiconFile = None,
    calibration: options.CalibrationFile = None,
    measure: options.Measure = False,
    recursive: options.Recursive = False,
    output: options.TranscriptsOut = None,
    exports: options.ExportsAfter = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    no_live: options.NoLive = False,
    mode: options.DecodingMode = None,
    k: options.BlockSize = None,
    gate: options.GateOption = None,
    threshold: options.Threshold = None,
    defer: options.Defer = None,
    accept: options.Accept = None,
    max_new_tokens: options.MaxNewTokens = None,
    degrade: options.Degrade = None,
    debug: options.Debug = False,
) -> int:
    """Caption recordings, one after the other.

    On a terminal a live view shows each round; in a pipe, stdout carries the captions alone, those of pieces behind
    their start and end in seconds. Flags follow a caption in brackets, as [no_speech]. The same command again captions
    what --output lacks.
    """
    resolved = options.resolve(context)
    require_shown(labels or lexicon or calibration, measure, shown=json or output is not None or not quiet)
    labelled = labelling(labels, lexicon, calibration)
    from specdec_cli.batch.output_file import Identity, Output
    from specdec_cli.cli.export import Exports
    from specdec_cli.console.live import choose_view
    from specdec_cli.inputs.find import all_unreadable, find_recordings
    from specdec_cli.inputs.opening import Stdin
    from specdec_cli.inputs.recording import InputFile, Key
    from specdec_cli.targets import TRANSCRIPTS, refuse
    from specdec_cli.transcript.terms import Terms

    stdin = context.with_resource(Stdin())
    files = find_recordings(paths, stdin, recursive=recursive)
    items = {file: InputFile(file, opener=stdin) for file in files}
    reads = [*files, lexicon, calibration, *resolved.reads]
    refuse({"--output": (output, TRANSCRIPTS)}, reads)
    more = Exports.after(exports, None, output)
    terms = Terms.of(resolved.config, labels=labelled is not None, measured=measure)
    config = resolved.config
    identity = Identity(output or Path(), terms, lambda _: (config.prompt.language, config.instruction()))
    view = choose_view(quiet=quiet, no_live=no_live, json=json, debug=debug)
    with closing(view), nullcontext() if output is None else Output(output, identity.check) as stored:
        append = None if stored is None else lambda line: stored.append(Key.of(line.file), [line])
        job = Job(view, append, json=json, labelled=len(files) > 1)
        known = {} if stored is None else {file: entry for file in files if (entry := stored.captioned(items[file]))}
        todo = [file for file in files if file not in known or not known[file].settled]
        refused = all_unreadable(items[file] for file in todo)
        captioner: Captioner | None = None
        try:
            if todo and not refused:
                captioner = load_captioner(resolved.config, view, labelled, measures=measure)
                identity.check_models(captioner.setup.models, captioner.setup.settings)
                if not json:
                    for note in resolved.notes:
                        view.say(note)
            for file in files:
                entry = known.get(file)
                if entry is not None and stored is not None:
                    job.repeat(file, stored.transcripts(entry))
                    job.empty += sum(mark.final for mark in entry.marks)
                if file in refused:
                    job.keep(file, [(terms.error_line(file, refused[file]), refused[file])])
                elif captioner is not None and (entry is None or not entry.settled):
                    runs = _runs(captioner, items[file], entry)
                    job.keep(file, job.transcripts(captioner, file, runs, items[file]))
        except BaseException as error:  # also a signal: the person wants to know how far it came
            job.finished()
            if isinstance(error, KeyboardInterrupt):
                view.interrupted(output)
            raise
        if captioner is not None or known:
            job.finished()
        unwritten: list[SpecdecError] = []
        if more is not None and output is not None and (job.done or job.before):
            from specdec_cli.export.recordings import Stored

            unwritten = more.write(Stored.read(output)).problems
            for problem in unwritten:
                view.failed(str(more.folder), problem)
        return 1 if job.failed or unwritten else 0


def _runs(captioner: Captioner, item: InputFile, entry: Entry | None) -> Iterator[Run]:
    """One run per piece that has no caption yet; errors as those of `Captioner.runs`."""
    recording = captioner.recording(item)
    for run in captioner.runs_of(recording, skip=entry.found_in(recording) if entry else ()):
        if recording.whole and run.error is not None:
            raise run.error
        yield run


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
        """Prints, records and counts what comes of one file; what is wrong with it is shown.

        Args:
            file: as given.
            transcripts: one per segment, with the error that it tells of.

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
            said = f"{transcript.speaker}: " if transcript.pieces is not None and transcript.speaker else ""
            text = marked(said + transcript.caption, " ".join(transcript.flags))
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
        from specdec_cli.console.view import show

        if run.error is not None:
            return run.error
        try:
            for update in run:
                show(self.view, update)
        except Exception as error:
            return typed(error)
        return None


def _place(transcript: Transcript, between: str, unit: str = "") -> str:
    return f"{transcript.start_s or 0.0:.2f}{between}{transcript.end_s or 0.0:.2f}{unit}"
