r"""Tables of comparisons, one row a setting: `python -m training.sweep zh-2.json zh-5.json en-2.json`.

Each file is what `specdec compare --json` printed for one setting, for example

    python -m training.references --data DIR --clips 300 --output dev.tsv
    cut -f1 dev.tsv | tail -n +2 | xargs -d '\n' specdec compare --references dev.tsv \
        --mode edge,cloud,lossless,hybrid --language zh --set decoding.k=2 --gate entropy --threshold 0.7 \
        --json > zh-2.json

The shipped k and threshold were chosen from such tables; the model card quotes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from specdec_cli.evaluate.result import Comparison, GapMeasure
from specdec_cli.types import COSTS, LOSSY_RULES, Interval, Mode

Figures = dict[str, str]
"""Column -> figure, as it is printed."""


def read_sweep(files: Iterable[Path]) -> dict[str, dict[str, Figures]]:
    """Language -> setting -> figures. The baselines come first; their times are those of the first file."""
    found: dict[str, dict[str, Figures]] = {}
    for file in files:
        comparison = Comparison.model_validate_json(file.read_text(encoding="utf-8"))
        rows = found.setdefault(f"{len(comparison.clips)} clips, {comparison.language}", {})
        for mode in comparison.modes:
            rows.setdefault(_label(comparison.settings, mode), _figures(comparison, mode))
    return {name: dict(sorted(rows.items(), key=lambda row: _place(row[0]))) for name, rows in found.items()}


def _place(label: str) -> int:
    baselines = ("edge", "cloud", "lossless")
    return next((place for place, name in enumerate(baselines) if label.startswith(name)), len(baselines))


def _label(settings: dict[str, Any], mode: Mode) -> str:
    if mode != "hybrid":
        return f"{mode}, k {settings['k']}" if mode == "lossless" else mode
    threshold, wake = (settings.get(name) for name in ("threshold", "wake"))
    parts = [settings["gate"] if threshold is None else f"{settings['gate']} {threshold:g}"]
    if settings.get("k") == "whole":
        parts += [*([] if wake is None else [f"wake {wake:g}"]), "deferred"]
    else:
        parts += [f"k {settings['k']}", *(["stopping"] if settings.get("stop_drafting") else [])]
    rule = str(settings.get("acceptance"))
    if rule.partition(":")[0] in LOSSY_RULES:
        parts.append(rule)
    return ", ".join(parts)


def _figures(comparison: Comparison, mode: Mode) -> Figures:
    at = comparison.modes.index(mode)
    costs, quality = comparison.costs[at], comparison.quality[at]
    total_s = costs.total_s.value
    figures = {
        "measured": _percent(quality.measured_mean),
        "heard": _percent(quality.heard_mean),
        "heard gap": _gap(comparison, mode, "heard"),
        "emotion gap": _gap(comparison, mode, "emotion"),
        "heard gap over random": _over_random(comparison, mode, "heard"),
        "emotion gap over random": _over_random(comparison, mode, "emotion"),
        "blocks": _percent(costs.escalation_rate),
        "clips woken": _percent(costs.clips_woken),
        "cloud's time": _percent(costs.cloud_time),
        "accepted": _percent(costs.acceptance_rate),
        "edge's tokens": _percent(costs.edge_token_share),
        "ms a clip": "-" if total_s is None else f"{1e3 * total_s / len(comparison.clips):.1f}",
        "tokens/s": "-" if costs.tokens_per_s.value is None else f"{costs.tokens_per_s.value:.1f}",
    }
    return figures | {name: _percent(label.accuracy) for name, label in quality.labels.items()}


def _gap(comparison: Comparison, mode: Mode, measure: GapMeasure) -> str:
    """Gap closed, with its interval."""
    for gap in comparison.gaps:
        if (gap.mode, gap.basis, gap.measure) == (mode, "references", measure) and gap.closed is not None:
            ends = "" if gap.closed.low is None else f" ({gap.closed.low:.2f}-{gap.closed.high:.2f})"
            return f"{gap.closed.value:.2f}{ends}"
    return "-"


def _over_random(comparison: Comparison, mode: Mode, measure: GapMeasure) -> str:
    """Points of the gap closed above escalation at random that spends as much of blocks, clips and time.

    A star: the paired interval excludes 0.
    """
    for gap in comparison.gaps:
        if (gap.mode, gap.basis, gap.measure) == (mode, "references", measure):
            at = {each.cost: each.above_random for each in gap.at_costs}
            return " / ".join(_points(at.get(cost)) for cost in COSTS)
    return "-"


def _points(found: Interval | None) -> str:
    if found is None:
        return "-"
    certain = found.low is not None and found.high is not None and (found.low > 0 or found.high < 0)
    return f"{100 * found.value:+.0f}{'*' if certain else ''}"


def _percent(share: Interval | None) -> str:
    return "-" if share is None else f"{100 * share.value:.1f}"


def main(
    files: Annotated[list[Path], typer.Argument(help="Output of specdec compare --json, a file for each setting.")],
    output: Annotated[Path | None, typer.Option(help="Write the tables to this JSON file, for the model card.")] = None,
) -> None:
    """Show quality, escalation and time of every mode, gate and k; shares are percentages."""
    found = read_sweep(files)
    console = Console(width=200)
    for name, rows in found.items():
        table = Table(title=name)
        table.add_column("setting")
        for column in next(iter(rows.values())):
            table.add_column(column, justify="right")
        for label, figures in rows.items():
            table.add_row(label, *figures.values())
        console.print(table)
    if output is not None:
        output.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
