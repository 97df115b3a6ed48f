"""What a command does before it loads models: refuse early what cannot succeed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from specdec_cli.errors import CloudError, ConfigError

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner
    from specdec_cli.config import Config
    from specdec_cli.console.view import View
    from specdec_cli.labels import Lexicon
    from specdec_cli.labels.calibration import Labelling
    from specdec_cli.labels.references import References
    from specdec_cli.run import Setup


def load_captioner(
    config: Config, view: View, labelled: Labelling | None = None, *, measures: bool = False
) -> Captioner:
    """The captioner of a command, whose display shows what is being loaded.

    Args:
        config: what to load.
        view: the display.
        labelled: finds the classes that captions name; None: no labels.
        measures: measure figures of each clip.

    Raises:
        CloudError: the cloud does not answer, and the mode needs it.
    """
    from specdec_cli.captioner import Captioner

    if config.loads_models:
        with view.loading("PyTorch"):
            import specdec_cli.models.loading  # noqa: F401 - takes seconds
    captioner = Captioner.load(config, loading=view.loading)
    require_cloud(captioner.setup, degrades=config.decoding.degrades)
    if labelled is not None:
        captioner = captioner.labelled(*labelled)
    return captioner.measuring() if measures else captioner


def require_cloud(setup: Setup, *, degrades: bool) -> None:
    """Refuses to begin if the cloud does not answer, unless the edge writes what the cloud cannot (`degrades`)."""
    if setup.unanswered and not degrades:
        alone = " With decoding.degrade the edge writes alone." if setup.mode == "lossless" else ""
        raise CloudError(
            f"The cloud does not answer: {setup.unanswered[0]}.", hint=f"Start the server, or check cloud.url.{alone}"
        )


def require_shown(labels: object, measure: bool, *, shown: bool) -> None:
    """Refuses options without a visible effect; `shown`: whether more than captions is printed or kept."""
    if (labels or measure) and not shown:
        option = "--measure" if measure else "--labels"
        hint = "Add --json or --output, or leave --quiet out."
        raise ConfigError(f"{option} has no effect with --quiet: captions are all that is printed.", hint=hint)


def labelling(labels: bool, words: Path | None, calibration: Path | None) -> Labelling | None:
    """What --labels, --lexicon and --calibration ask for, None if none is given.

    Raises:
        ConfigError: a file cannot be used.
    """
    if not labels and words is None and calibration is None:
        return None
    from specdec_cli.labels import Lexicon
    from specdec_cli.labels.calibration import Labelling, read_calibration

    return Labelling(Lexicon.load(words), None if calibration is None else read_calibration(calibration))


def read_references(
    table: Path | None,
    file_column: str | None,
    text_columns: Sequence[str] | None,
    label_columns: Sequence[str] | None,
    words: Path | None,
    *,
    needed: Sequence[str] = (),
) -> tuple[Lexicon, References | None]:
    """The lexicon, and the references if there are any, by which `compare` and `tune` judge captions.

    Args:
        table: --references.
        file_column, text_columns, label_columns: its columns; a label's is "attribute=column".
        words: --lexicon; None for the shipped one.
        needed: other options that need references.

    Raises:
        ConfigError: one of the two is malformed, or a column is named of no table.
    """
    from specdec_cli.labels import Lexicon

    lexicon = Lexicon.load(words)
    if table is None:
        named = {"--file-column": file_column, "--text-column": text_columns, "--label-column": label_columns}
        if given := [flag for flag, value in named.items() if value] + list(needed):
            raise ConfigError(
                f"{', '.join(given)}: there are no references for it.", hint="Name the table: --references FILE"
            )
        return lexicon, None
    from specdec_cli.labels.references import References

    return lexicon, References.read(
        table,
        file_column=file_column,
        text_columns=tuple(text_columns or ()),
        label_columns=dict(_column(label, lexicon) for label in label_columns or ()),
        lexicon=lexicon,
    )


def _column(label: str, lexicon: Lexicon) -> tuple[str, str]:
    attribute, separator, column = label.partition("=")
    if not separator or not column or attribute not in lexicon.attributes:
        raise ConfigError(
            f"--label-column {label!r} is not of the form attribute=column.",
            hint=f"Attributes: {', '.join(lexicon.attributes)}. For example: --label-column emotion=mood",
        )
    return attribute, column
