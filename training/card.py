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
from training.labels import PROSODY
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


def _shown(value: Any) -> str:
    return "-" if value is None else f"{value}"


def _splits(results: dict[str, dict[str, Any]]) -> list[str]:
    """A table of each split that was measured, its sides and languages beside each other."""
    columns = [(side, language) for side in results for language in ("zh", "en")]
    lines: list[str] = []
    for split in ("dev", "report"):
        if not all(split in figures for figures in results.values()):
            continue
        head = " | ".join(f"{side} {language}" for side, language in columns)
        lines += ["", f"| {split} speakers | {head} | majority |", "|---|" + "---|" * (len(columns) + 1)]
        parts = [results[side][split][language] for side, language in columns]

        def row(name: str, values: list[Any], constant: Any = "", lines: list[str] = lines) -> None:
            lines.append(f"| {name} | " + " | ".join(_shown(value) for value in values) + f" | {constant} |")

        row("captions", [part["clips"] for part in parts])
        row("well-formed", [part["well_formed"] for part in parts])
        row("measured, mean of five", [part["measured_mean"] for part in parts])
        row("heard, mean of voice and emotion", [part["heard_mean"] for part in parts])
        row("emotion, mean of corpora", [part["emotion_mean"] for part in parts])
        for corpus in sorted(parts[0]["emotion"]):
            row(f"emotion, {corpus}", [part["emotion"][corpus] for part in parts])
        for name in PROSODY:
            row(name, [part["prosody"][name] for part in parts], parts[0]["majority"][name])
    return lines


def _figures(results: dict[str, dict[str, Any]]) -> str:
    lines = _splits(results)
    lines += ["", "`cremad` is its agreed clips (listeners heard what was meant), `cremad_all` all by what was meant."]
    lines += ["", "| | " + " | ".join(results) + " |", "|---|" + "---|" * len(results)]
    sides = list(results.values())
    lengths = list(sides[0]["well_formed_by_duration_s"])
    for seconds in lengths:
        row_values = " | ".join(_shown(side["well_formed_by_duration_s"][seconds]) for side in sides)
        lines.append(f"| well-formed at {seconds} s, all languages and styles | {row_values} |")
    for corpus in ("secap", "casia"):
        for name in sides[0].get(corpus, {}):
            values = [side[corpus][name] for side in sides]
            if isinstance(values[0], dict):
                cells = " | ".join(f"{value['accuracy']} (majority {value['majority']})" for value in values)
            else:
                cells = " | ".join(_shown(value) for value in values)
            lines.append(f"| {corpus} {name} | {cells} |")
    return "\n".join(lines).strip()


def current(card: str, results: dict[str, dict[str, Any]] | None = None) -> str:
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
