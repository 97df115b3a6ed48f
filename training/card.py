"""Write the tables of MODEL_CARD.md that come from code and measurements: `python -m training.card --figures FILE`.

Each stands between two comments, `<!-- shapes -->` and `<!-- end -->` and the like; all else is written by hand.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from training import WEIGHTS
from training.architecture import SIDES
from training.recipes import RECIPES, TOWER_RECIPES, Recipe


def _shapes() -> str:
    lines = ["| | audio tower layers | decoder | vocabulary padded to |", "|---|---|---|---|"]
    for side in SIDES.values():
        decoder = f"{side.layers} layers, hidden {side.hidden}, ffn {side.ffn}"
        lines.append(f"| {side.name} | {side.tower_layers} | {decoder} | multiples of {side.vocabulary_multiple} |")
    return "\n".join(lines)


def _settings(recipe: Recipe) -> str:
    return ", ".join(f"{name} {value}" for name, value in asdict(recipe).items())


def _recipes() -> str:
    lines = ["| | recipe |", "|---|---|"]
    lines += [f"| {side.name} tower | {_settings(recipe)} |" for side, recipe in TOWER_RECIPES.items()]
    lines += [f"| {side.name} decoder | {_settings(recipe)} |" for side, recipe in RECIPES.items()]
    return "\n".join(lines)


def _table(title: str, columns: dict[str, dict[str, Any]]) -> str:
    """A table of the rows that the first column has; a cell is empty where a column has none, `-` where it is None."""
    lines = [f"| {title} | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
    for row in next(iter(columns.values())):
        cells = ("-" if (value := column.get(row, "")) is None else f"{value}" for column in columns.values())
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _figures(results: dict[str, dict[str, dict[str, Any]]]) -> str:
    note = "`cremad` is its agreed clips (listeners heard what was meant), `cremad_all` all by what was meant."
    *splits, others = (_table(title, columns) for title, columns in results.items())
    return "\n\n".join([*splits, note, others])


def current(card: str, results: dict[str, dict[str, dict[str, Any]]] | None = None) -> str:
    """A card with tables of the shapes and recipes that the code has, and of `results` that `evaluate` wrote, if any.

    KeyError: a table has no place in the card.
    """
    tables = {"shapes": _shapes(), "recipes": _recipes()} | ({} if results is None else {"figures": _figures(results)})
    for name, table in tables.items():
        found = re.search(f"(?<=<!-- {name} -->\n\n).*?(?=\n\n<!-- end -->)", card, re.DOTALL)
        if found is None:
            raise KeyError(name)
        card = card[: found.start()] + table + card[found.end() :]
    return card


def main(
    figures: Annotated[Path | None, typer.Option(help="JSON file written by evaluate. [default: keep figures]")] = None,
    card: Annotated[Path, typer.Option(help="The model card.")] = WEIGHTS / "MODEL_CARD.md",
) -> None:
    """Write the model card's tables anew."""
    results = None if figures is None else json.loads(figures.read_text(encoding="utf-8"))
    card.write_text(current(card.read_text(encoding="utf-8"), results), encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
