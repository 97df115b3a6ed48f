"""`specdec calibrate`: probabilities of classes that hold, fitted to transcripts and references."""

from __future__ import annotations

from pathlib import Path

from specdec_cli.cli import options
from specdec_cli.cli.startup import read_references
from specdec_cli.errors import ConfigError


@options.command(output=options.written("FILE", "Write the calibration to this file (.json)."))
def calibrate(
    transcripts: list[Path],
    references: Path | None = None,
    file_column: str | None = None,
    label_column: list[str] | None = None,
    lexicon: Path | None = None,
    eval_seed: int = 0,
    output: Path | None = None,
    plot: Path | None = None,
    attribute: str = "emotion",
    json: bool = False,
) -> int:
    """Fit a calibration to your own recordings, so that of classes given 70% about 70% are right.

    TRANSCRIPTS were made with --labels. One temperature is fitted to each model and attribute with at least 50 known
    classes. The table gives the error on speakers that the temperature was not fitted to: name them in a column
    speaker of the references. Use the file with --calibration FILE.
    """
    from specdec_cli.cli.command_run import emit
    from specdec_cli.targets import CALIBRATION, PICTURE, refuse, write

    if references is None:
        raise ConfigError(
            "A calibration needs to know which classes are right.", hint="Name a table: --references FILE"
        )
    words, table = read_references(references, file_column, None, label_column, lexicon)
    if attribute not in words.attributes:
        raise ConfigError(f"There is no attribute {attribute!r}.", hint=f"Attributes: {', '.join(words.attributes)}.")
    targets = {"--output": (output, CALIBRATION), "--plot": (plot, PICTURE)}
    refuse(targets, [*transcripts, references, lexicon])
    from specdec_cli import __version__
    from specdec_cli.labels.temperatures import calibrate as calibrated
    from specdec_cli.labels.temperatures import calibration_file, read_decisions

    assert table is not None
    decisions = list(read_decisions(transcripts, table))
    found = calibrated(decisions, by_speaker=table.columns.speaker is not None, seed=eval_seed)
    if output is not None:
        write(output, calibration_file(found, decisions, __version__).to_json(), CALIBRATION)
    if plot is not None:
        from specdec_cli.plot.reliability import reliability

        write(plot, reliability(found, attribute, plot.suffix.lower().lstrip(".")), PICTURE)
    from specdec_cli.console.fitted_view import print_calibration

    emit(found, print_calibration, json=json)
    return 0
