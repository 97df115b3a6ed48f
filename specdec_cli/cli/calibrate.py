"""`specdec calibrate`: fits the probabilities of classes to transcripts and references."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from specdec_cli import __version__
from specdec_cli.calibrate.decisions import read_decisions
from specdec_cli.calibrate.fitting import calibrate as calibrated
from specdec_cli.cli import options
from specdec_cli.cli.command_run import display, emit, read_references
from specdec_cli.cli.outputs import by_ending
from specdec_cli.console.pages import calibration_page
from specdec_cli.errors import ConfigError
from specdec_cli.targets import CALIBRATION, Targets

_FITTED: Final = "The calibration (.json)."


@options.taking(options.ReferenceOptions)
def calibrate(
    context: typer.Context,
    transcripts: options.TranscriptFiles,
    references: Path | None,
    lexicon: Path | None,
    output: Annotated[list[Path] | None, options.out(metavar="FILE", help=_FITTED)] = None,
    json: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """Fit a calibration to your own recordings: of classes with a probability of 70%, about 70% are then right.

    Make the transcripts with --labels. Each model and attribute with at least 50 known classes gets a temperature. The
    printed error is that of speakers to whom it was not fitted; a column speaker of the references names them. Use the
    file with --calibration FILE.
    """
    config = options.resolve(context).config
    _, table = read_references(context, config)
    if table is None:
        hint = "Name a table: --references FILE"
        raise ConfigError("A calibration needs to know which classes are right.", hint=hint)
    targets = Targets([*transcripts, references, lexicon])
    (file,) = by_ending(output, (CALIBRATION,), targets)
    with display(context, references=table):
        decisions = list(read_decisions(transcripts, table))
        by_speaker = any(entry.speaker for entry in table.entries)
        found = calibrated(decisions, by_speaker=by_speaker, seed=config.judging.seed)
    if file is not None:
        targets.write(file, f"{found.file(__version__).model_dump_json(indent=1, exclude={'mark'})}\n")
    emit(found, calibration_page, json=json)
    return 0
