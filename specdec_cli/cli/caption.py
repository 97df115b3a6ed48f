"""`specdec caption`: recordings to captions, one after the other, with a live view."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from specdec_cli.batch.output_file import Entry, Identity, Output
from specdec_cli.cli import options
from specdec_cli.cli.command_run import Job, display, labelling, load_captioner
from specdec_cli.cli.export import Exports
from specdec_cli.console.view import View
from specdec_cli.inputs.find import all_unreadable, find_recordings
from specdec_cli.inputs.opening import Stdin
from specdec_cli.inputs.recording import InputFile, Key
from specdec_cli.targets import TRANSCRIPTS, refuse
from specdec_cli.transcript.terms import Terms

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner
    from specdec_cli.run import Run


@options.takes(
    options.settings(*options.PROMPT, *options.CUTS, "decoding.mode", *options.DECODED),
    options.LABELS,
    options.CLIPS,
)
def caption(
    context: typer.Context,
    paths: list[str],
    recursive: bool = False,
    output: Path | None = None,
    exports: str | None = None,
    **given: Any,
) -> int:
    """Caption recordings, one after the other.

    On a terminal a live view shows each round; in a pipe, stdout carries the captions alone, those of pieces behind
    their start and end in seconds. Flags follow a caption in brackets, as [no_speech]. The same command again captions
    what --output lacks.
    """
    resolved, labelled = options.resolve(given), labelling(**given)
    stdin = context.with_resource(Stdin())
    files = find_recordings(paths, stdin, recursive=recursive)
    items = {file: InputFile(file, opener=stdin) for file in files}
    refuse({"--output": (output, TRANSCRIPTS)}, [*files, given["lexicon"], given["calibration"], *resolved.reads])
    more = Exports.after(exports, None, output)
    config = resolved.config
    terms = Terms.of(config, labels=labelled is not None, measured=given["measure"])
    identity = Identity(output or Path(), terms, lambda _: (config.prompt.language, config.instruction()))

    def load(view: View) -> Captioner:
        captioner = load_captioner(config, view, labelled, measures=given["measure"])
        identity.check_models(captioner.setup.models, captioner.setup.settings)
        if not given["json"]:
            view.say(resolved.note)
        return captioner

    with display(given) as view, nullcontext() if output is None else Output(output, identity.check) as stored:
        append = None if stored is None else lambda line: stored.append(Key.of(line.file), [line])
        with Job(view, output, append, json=given["json"], named=len(files) > 1) as job:
            _caption_all(job, items, stored, terms, load)
        captioned = job.counts.captioned or job.counts.skipped
        written = more is None or output is None or not captioned or more.written(output, view)
        return 1 if job.counts.failed or not written else 0


def _caption_all(
    job: Job, items: dict[str, InputFile], stored: Output | None, terms: Terms, load: Callable[[View], Captioner]
) -> None:
    """Repeats what is stored and captions the rest, with models that are loaded only if there is something to do."""
    found = {} if stored is None else {file: stored.captioned(item) for file, item in items.items()}
    known = {file: entry for file, entry in found.items() if entry is not None}
    todo = [item for file, item in items.items() if file not in known or not known[file].settled]
    refused = all_unreadable(todo)
    captioner = load(job.view) if todo and not refused else None
    for file, item in items.items():
        entry = known.get(file)
        if entry is not None and stored is not None:
            job.repeat(file, stored.transcripts(entry))
            job.counts.skipped += sum(mark.final for mark in entry.marks)  # nothing to describe
        if file in refused:
            job.keep(file, [(terms.error_line(file, refused[file]), refused[file])])
        elif captioner is not None and (entry is None or not entry.settled):
            job.keep(file, job.transcripts(captioner, file, _runs(captioner, item, entry), item))


def _runs(captioner: Captioner, item: InputFile, entry: Entry | None) -> Iterator[Run]:
    """One run per piece that has no caption yet; errors as those of `Captioner.runs`."""
    recording = captioner.recording(item)
    for run in captioner.runs_of(recording, skip=entry.found_in(recording) if entry else ()):
        if recording.whole and run.error is not None:
            raise run.error
        yield run
