"""`specdec caption`: recordings to captions, one after the other, with a live view."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from specdec_cli.cli.command import Given, command
from specdec_cli.cli.options import SETTING_OPTIONS
from specdec_cli.cli.startup import labelling, load_captioner, require_shown
from specdec_cli.config import ResolvedConfig, configs_folder
from specdec_cli.errors import SpecdecError, typed

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner
    from specdec_cli.console.view import View
    from specdec_cli.run import Run
    from specdec_cli.transcript import Transcript

_LANGUAGE: Final = "prompt.language"
_LOCALES: Final = ("LC_ALL", "LC_MESSAGES", "LANG")


@command(*SETTING_OPTIONS, example="recording.wav --language en", defaults={"language": "auto"})
def caption(
    paths: list[str],
    given: Given,
    labels: bool = False,
    lexicon: Path | None = None,
    calibration: Path | None = None,
    measure: bool = False,
    output: Path | None = None,
    exports: str | None = None,
    export_dir: Path | None = None,
    json: bool = False,
    quiet: bool = False,
    no_live: bool = False,
    debug: bool = False,
) -> int:
    """Caption recordings, one after the other.

    On a terminal a live view shows each round; in a pipe, stdout carries the captions alone. With --language auto, the
    default, captions are in the language of the locale (LC_ALL, LC_MESSAGES, LANG), zh or en.
    """
    resolved, language = choose_language(given, os.environ)
    require_shown(labels or lexicon or calibration, measure, shown=json or output is not None or not quiet)
    labelled = labelling(labels, lexicon, calibration)
    from specdec_cli.cli.export import Exports
    from specdec_cli.console.live import choose_view
    from specdec_cli.inputs.find import all_unreadable, find_recordings
    from specdec_cli.targets import TRANSCRIPTS, refuse

    files = find_recordings(paths)
    reads = [*files, lexicon, calibration, *resolved.reads]
    refuse({"--output": (output, TRANSCRIPTS)}, reads)
    more = Exports.after(exports, export_dir, output)

    view = choose_view(quiet=quiet, no_live=no_live, json=json, debug=debug)
    try:
        job = Job(view, output, json=json, labelled=len(files) > 1)
        if refused := all_unreadable(files):
            from specdec_cli.transcript.terms import Terms

            terms = Terms.of(resolved.config)
            for file, error in refused.items():
                job.keep(file, [(terms.error_line(file, error), error)])
            return 1
        captioner = load_captioner(resolved.config, view, labelled, measures=measure)
        if language and not quiet and not json:
            typer.echo(language, err=True)
        try:
            for file in files:
                job.keep(file, job.transcripts(captioner, file, captioner.runs(file)))
        finally:  # also when interrupted: the person wants to know how far it came
            view.finished_all(job.done, job.failed)
        unwritten: list[SpecdecError] = []
        if more is not None and output is not None and job.done:
            from specdec_cli.export.recordings import Stored

            unwritten = more.write(Stored.read(output, mode=resolved.config.decoding.mode)).problems
            for problem in unwritten:
                view.failed(str(more.folder), problem)
        return 1 if job.failed or unwritten else 0
    except KeyboardInterrupt:
        view.interrupted(output)
        raise
    finally:
        view.close()


def choose_language(given: Given, environ: Mapping[str, str]) -> tuple[ResolvedConfig, str | None]:
    """The configuration with the language of the captions, and a sentence where the locale decided it.

    The locale decides where --language is auto, and where nobody but a shipped configuration names a language.

    Args:
        given: what the command line says.
        environ: environment variables.

    Raises:
        ConfigError: anything in the configuration is wrong.
    """
    auto = given.flags.get(_LANGUAGE) == "auto"
    if auto:
        given = replace(given, flags={name: value for name, value in given.flags.items() if name != _LANGUAGE})
    resolved = given.resolve()
    origin = resolved.origin[_LANGUAGE]
    shipped = resolved.path.parent == configs_folder() and origin.startswith(f"{resolved.path.name}:")
    if origin == "flag --set" or not (auto or shipped or origin == "default"):
        return resolved, None
    variable = next((name for name in _LOCALES if environ.get(name)), None)
    locale = environ[variable] if variable else ""
    language = "zh" if locale.lower().startswith("zh") else "en"
    fixed = given.resolve({_LANGUAGE: language})
    because = f"{variable} is {ascii(locale)[1:-1]}" if variable else "no locale is set"
    return fixed, f"Captions are in {'Chinese' if language == 'zh' else 'English'}: {because}. See --language."


@dataclass
class Job:
    """Captions files and counts how that went.

    Attributes:
        output: file to append transcripts to.
        json: print transcripts on stdout instead of captions.
        labelled: write the file's name before each caption.
    """

    view: View
    output: Path | None
    json: bool
    labelled: bool
    done: int = 0
    failed: int = 0

    def keep(self, file: str, transcripts: Iterable[tuple[Transcript, SpecdecError | None]]) -> None:
        """Prints, records and counts what comes of one file; what is wrong with it is shown.

        Args:
            file: as given.
            transcripts: one per segment, with the error that it tells of.

        Raises:
            TranscriptError: the output file cannot be written, which the next file would not change.
        """
        from specdec_cli.console.output import print_caption, write_line
        from specdec_cli.store import append_line
        from specdec_cli.targets import TRANSCRIPTS

        for transcript, error in transcripts:
            if error is not None:
                self.failed += 1
                self.view.failed(file, error)
            elif not self.json:
                print_caption(transcript.caption or "", view=self.view, label=file if self.labelled else None)
            if self.json:
                write_line(transcript.to_json())
            if self.output is not None:
                append_line(self.output, TRANSCRIPTS, transcript.to_json())
            self.done += error is None

    def transcripts(
        self, captioner: Captioner, file: str, runs: Iterable[Run]
    ) -> Iterator[tuple[Transcript, SpecdecError | None]]:
        """What `keep` takes, shown while it comes about. What is wrong with `file` never costs the next one."""
        setup = captioner.setup
        try:
            for run in runs:
                error = self._watch(run)
                yield (setup.error_line(file, error, run.clip), error) if error else (run.finish(), None)
        except Exception as error:
            known = typed(error)
            yield setup.error_line(file, known), known

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
