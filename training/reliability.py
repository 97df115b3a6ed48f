"""The shipped calibration on other speakers: `python -m training.reliability *.jsonl --references TABLE`.

Transcripts that were made with `--labels`; nothing is fitted to them, as `specdec calibrate` would.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from specdec_cli.calibrate.decisions import Decision, read_decisions
from specdec_cli.calibrate.fitting import reliability
from specdec_cli.labels import Lexicon
from specdec_cli.labels.calibration import SHIPPED, read_calibration, sharpened
from specdec_cli.labels.references import References
from specdec_cli.types import Mode


def errors(decisions: list[Decision]) -> dict[tuple[str, Mode], tuple[int, float, float]]:
    """(attribute, mode) -> captions, and the expected calibration error before and after the shipped calibration."""
    models = read_calibration(SHIPPED).models
    groups: dict[tuple[str, Mode], list[Decision]] = defaultdict(list)
    for decision in decisions:
        groups[decision.attribute, decision.mode].append(decision)
    found = {}
    for key, own in sorted(groups.items()):
        powers = [1 / models[each.by].temperatures.get(each.attribute, 1.0) for each in own]
        after = [replace(each, classes=sharpened(each.classes, p)) for each, p in zip(own, powers, strict=True)]
        found[key] = len(own), reliability(own).ece, reliability(after).ece
    return found


def main(
    transcripts: Annotated[list[Path], typer.Argument(help="Transcripts with probabilities.")],
    references: Annotated[Path, typer.Option(help="Table of the right classes.")],
) -> None:
    """Print the expected calibration error, per cent, of each attribute and mode."""
    decisions = list(read_decisions(transcripts, References.read(references, lexicon=Lexicon.load())))
    for (attribute, mode), (captions, before, after) in errors(decisions).items():
        typer.echo(f"{attribute:8} {mode:8} {captions:5} captions: {100 * before:.1f}, calibrated {100 * after:.1f}")


if __name__ == "__main__":
    typer.run(main)
