"""The shipped calibration and its error on other speakers: `python -m training.calibration *.jsonl --references T`.

Without --output nothing is fitted: the errors are those of the shipped temperatures, on the speakers of the table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from specdec_cli import __version__
from specdec_cli.errors import ConfigError
from specdec_cli.evaluate.calibration import LEAST, Decision, decisions, error, fitted
from specdec_cli.inputs.recording import Key
from specdec_cli.labels import Lexicon
from specdec_cli.labels.calibration import CalibrationFile, OfModel
from specdec_cli.labels.references import References
from specdec_cli.transcript.lines import Line, latest, stored_lines, transcript_at
from specdec_cli.transcript.records import Transcript
from specdec_cli.types import Decider


def transcripts_of(paths: Sequence[Path]) -> Iterator[Transcript]:
    """The transcripts of files of captions; of a clip that one file has captioned again, the last."""
    for path in paths:
        lines = defaultdict[Key, list[Line]](list)
        for line in stored_lines(path):
            lines[line.key].append(line)
        yield from (transcript_at(path, line) for of in lines.values() for line in latest(of) if line.head.good)


def fit(own: Sequence[tuple[Transcript, Sequence[Decision]]]) -> CalibrationFile:
    """Temperatures of each model and attribute; 1 where none lowers the error.

    Raises:
        ConfigError: a role was not one model's with a fingerprint.
    """
    found = defaultdict[tuple[Decider, str], list[Decision]](list)
    weights = defaultdict[Decider, set[str | None]](set)
    for run, made in own:
        for decision in made:
            by = (run.scores or {})[decision.attribute].by
            model = run.models.edge if by == "edge" else run.models.cloud
            weights[by].add(None if model is None else model.weights)
            found[by, decision.attribute].append(decision)
    models: dict[Decider, OfModel] = {}
    for by, names in weights.items():
        (name, *others) = names
        if others or name is None:
            raise ConfigError(f"As {by} the transcripts name several models, or one without its weights.")
        known = {what: each for (role, what), each in found.items() if role == by and len(each) >= LEAST}
        models[by] = OfModel(weights=name, temperatures={what: _temperature(each) for what, each in known.items()})
    return CalibrationFile(models=models, fitted_on={"specdec": __version__, "captions": len(own)})


def _temperature(own: Sequence[Decision]) -> float:
    best = fitted(own)
    lowers = error(own, [best] * len(own)) < error(own, [1.0] * len(own))
    return round(best, 4) if lowers else 1.0


def main(
    transcripts: Annotated[list[Path], typer.Argument(help="Transcripts with probabilities.")],
    references: Annotated[Path, typer.Option(help="Table of the right classes.")],
    output: Annotated[Path | None, typer.Option(help="Calibration file to write.")] = None,
) -> None:
    """Print the calibration error of each attribute and mode, per cent; with --output, fit temperatures."""
    table = References.read(references, lexicon=Lexicon.read())
    own = [(run, list(decisions([(run, table.of(run))]))) for run in transcripts_of(transcripts)]
    groups = defaultdict[tuple[str, str], list[Decision]](list)
    for run, made in own:
        for decision in made:
            groups[decision.attribute, run.mode].append(decision)
    for (attribute, mode), each in sorted(groups.items()):
        raw, now = error(each, [1.0] * len(each)), error(each)
        typer.echo(f"{attribute:8} {mode:8} {len(each):5} captions: {100 * raw:.1f}, calibrated {100 * now:.1f}")
    if output is not None:
        output.write_text(f"{fit(own).model_dump_json(indent=1)}\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
