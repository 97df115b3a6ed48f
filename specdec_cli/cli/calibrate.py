"""`specdec calibrate`: probabilities of classes that hold, fitted to transcripts and references."""

from __future__ import annotations

from pathlib import Path

from specdec_cli.cli.command import command
from specdec_cli.cli.startup import read_references
from specdec_cli.errors import ConfigError


@command(example="captions.jsonl --references truth.tsv --output calibration.json")
def calibrate(
    transcripts: list[Path],
    references: Path | None = None,
    file_column: str | None = None,
    label_column: list[str] | None = None,
    lexicon: Path | None = None,
    eval_seed: int = 0,
    save_calibration: Path | None = None,
    plot: Path | None = None,
    attribute: str = "emotion",
    json: bool = False,
) -> int:
    """Fit a calibration to your own recordings, so that of classes given 70% about 70% are right.

    TRANSCRIPTS were made with --labels. One temperature is fitted to each model and attribute with at least 50 known
    classes. The table gives the error on speakers that the temperature was not fitted to: name them in a column
    speaker of the references. Use the file with --calibration FILE.
    """
    from specdec_cli.cli.work import emit
    from specdec_cli.targets import CALIBRATION, PICTURE, refuse, write

    if references is None:
        raise ConfigError(
            "A calibration needs to know which classes are right.", hint="Name a table: --references FILE"
        )
    words, table = read_references(references, file_column, None, label_column, lexicon)
    if attribute not in words.attributes:
        raise ConfigError(f"There is no attribute {attribute!r}.", hint=f"Attributes: {', '.join(words.attributes)}.")
    targets = {"--output": (save_calibration, CALIBRATION), "--plot": (plot, PICTURE)}
    refuse(targets, [*transcripts, references, lexicon])
    from specdec_cli import __version__
    from specdec_cli.calibrate import fit
    from specdec_cli.calibrate.decisions import read_decisions

    assert table is not None
    decisions = list(read_decisions(transcripts, table))
    found = fit.calibrate(decisions, by_speaker=table.columns.speaker is not None, seed=eval_seed)
    if save_calibration is not None:
        write(save_calibration, fit.calibration_file(found, decisions, __version__).to_json(), CALIBRATION)
    if plot is not None:
        from specdec_cli.report.reliability import reliability_svg

        write(plot, reliability_svg(found, attribute), PICTURE)
    from specdec_cli.console.calibrate import print_calibration

    emit(found, print_calibration, json=json)
    return 0
