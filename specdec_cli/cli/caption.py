"""`specdec caption`: recordings to captions, one after the other, with a live view."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specdec_cli.cli import options
from specdec_cli.errors import SpecdecError

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner
    from specdec_cli.console import View
    from specdec_cli.transcript import Transcript

_OUTPUT = "Output"


def caption(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Recordings: any audio or video file.")],
    config: options.Config = None,
    language: options.Language = None,
    style: options.Style = None,
    prompt: options.Prompt = None,
    segment: options.Segment = None,
    mode: options.Mode = None,
    k: options.K = None,
    gate: options.Gate = None,
    threshold: options.Threshold = None,
    accept: options.Accept = None,
    max_new_tokens: options.MaxNewTokens = None,
    min_new_tokens: options.MinNewTokens = None,
    sentences: options.Sentences = None,
    stop: options.Stop = None,
    temperature: options.Temperature = None,
    top_p: options.TopP = None,
    top_k: options.TopK = None,
    seed: options.Seed = None,
    repetition_penalty: options.RepetitionPenalty = None,
    no_repeat_ngram: options.NoRepeatNgram = None,
    settings: options.Settings = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="JSONL", help="Append transcripts here.", rich_help_panel=_OUTPUT),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print transcripts on stdout instead of captions.", rich_help_panel=_OUTPUT)
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Captions and errors only.", rich_help_panel=_OUTPUT)
    ] = False,
    no_live: Annotated[
        bool, typer.Option("--no-live", help="Rounds as plain lines, nothing redrawn.", rich_help_panel=_OUTPUT)
    ] = False,
    debug: options.Debug = False,
) -> None:
    """Caption recordings, one after the other.

    On a terminal a live view shows each round; in a pipe, stdout carries the captions alone.
    """
    resolved = options.resolve(
        config,
        {
            "prompt.language": language,
            "prompt.style": style,
            "prompt.text": prompt,
            "audio.segment_s": segment,
            "decoding.mode": mode,
            "decoding.k": k,
            "gate.name": gate,
            "gate.threshold": threshold,
            "acceptance.rule": accept,
            "decoding.max_new_tokens": max_new_tokens,
            "decoding.min_new_tokens": min_new_tokens,
            "decoding.sentences": sentences,
            "decoding.stop_strings": stop,
            "decoding.temperature": temperature,
            "decoding.top_p": top_p,
            "decoding.top_k": top_k,
            "decoding.seed": seed,
            "decoding.repetition_penalty": repetition_penalty,
            "decoding.no_repeat_ngram": no_repeat_ngram,
        },
        settings or [],
    )
    if debug:
        import logging

        logging.basicConfig(level=logging.DEBUG, format="%(levelname)s %(name)s: %(message)s")
        logging.getLogger("specdec_cli").setLevel(logging.DEBUG)
    from specdec_cli.console import choose_view

    view = choose_view(quiet=quiet, no_live=no_live, json=json, debug=debug)
    try:
        _refuse_early(files, output)
        with view.loading("starting PyTorch"):
            from specdec_cli.captioner import Captioner
        captioner = Captioner.load(resolved.config, loading=view.loading)
        job = _Job(captioner, view, output, json=json, labelled=len(files) > 1)
        for file in files:
            job.caption(file)
        view.finished_all(job.done, job.failed)
    finally:
        view.close()
    if job.failed:
        raise typer.Exit(1)


class _Job:
    """Captions files and counts how that went."""

    def __init__(self, captioner: Captioner, view: View, output: Path | None, *, json: bool, labelled: bool) -> None:
        self.done = 0
        self.failed = 0
        self._captioner = captioner
        self._view = view
        self._output = output
        self._json = json
        self._labelled = labelled

    def caption(self, file: str) -> None:
        """Captions one file; what is wrong with it is shown and counted, and never costs the next one."""
        from specdec_cli.console import show

        try:
            for run in self._captioner.runs(file):
                if run.error is not None:
                    self._fail(file, run.error, run.finish())
                    continue
                for update in run:
                    show(self._view, update)
                self._emit(file, run.finish())
                self.done += 1
        except SpecdecError as error:
            self._fail(file, error, self._captioner.setup.error_line(file, error))

    def _fail(self, file: str, error: SpecdecError, line: Transcript) -> None:
        self.failed += 1
        self._view.failed(file, error)
        self._record(line)

    def _emit(self, file: str, transcript: Transcript) -> None:
        from specdec_cli.console import print_caption

        if not self._json:
            print_caption(transcript.caption or "", view=self._view, label=file if self._labelled else None)
        self._record(transcript)

    def _record(self, transcript: Transcript) -> None:
        if self._json:
            from specdec_cli.console import write_line

            write_line(transcript.to_json())
        if self._output is not None:
            from specdec_cli.transcript import append_transcript

            append_transcript(self._output, transcript)


def _refuse_early(files: list[str], output: Path | None) -> None:
    """Refuses what can be known to fail before models are loaded."""
    from specdec_cli.errors import AudioNotFoundError, TranscriptError

    if output is not None and not output.parent.is_dir():
        raise TranscriptError(f"the folder of {output} does not exist", hint=f"Create it: mkdir -p {output.parent}")
    if output is not None and output.is_dir():
        raise TranscriptError(f"{output} is a folder", hint="Give the name of a file to append to.")
    missing = [file for file in files if not Path(file).exists()]
    if len(missing) == len(files) and output is None:
        if len(files) == 1:
            raise AudioNotFoundError(f"{files[0]} does not exist", hint="Check the path.")
        raise AudioNotFoundError(f"none of the {len(files)} files exists, such as {files[0]}", hint="Check the paths.")
