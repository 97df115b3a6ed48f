"""The figures of a comparison as rows of a grid: what each mode costs, and how good its captions are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from specdec_cli.console.figures import milliseconds, seconds
from specdec_cli.console.grid import Cell, Row

if TYPE_CHECKING:
    from specdec_cli.compare.result import Comparison, Figure, LabelQuality, ModeFigures, ModeQuality, Spread


class Wording:
    """How figures are written, in the signs that the terminal has.

    Args:
        unicode: whether signs beyond ASCII can be written.
    """

    def __init__(self, *, unicode: bool) -> None:
        self.none = "—" if unicode else "-"
        self._times = "×" if unicode else "x"
        self._dash = "–" if unicode else "-"

    def ratio(self, spread: Spread | None) -> tuple[str, str]:
        """`×2.61` and `2.40–2.87`; empty where there is none."""
        if spread is None:
            return "", ""
        return f"{self._times}{short(spread.value)}", self.range(spread, short)

    def range(self, spread: Spread, figure: Callable[[float], str]) -> str:
        """Both ends of an interval; empty where there is none, or where it is the figure itself."""
        if spread.low is None or spread.high is None or spread.low == spread.high:
            return ""
        return f"{figure(spread.low)}{self._dash}{figure(spread.high)}"

    def share(self, spread: Spread | None) -> Cell:
        """A share as a percentage with its interval."""
        if spread is None:
            return Cell(self.none)
        return Cell(percentage(spread.value), spread=self.range(spread, lambda share: f"{100 * share:.0f}"))

    def plain(self, value: float | None, written: Callable[[float], str]) -> Cell:
        """A figure alone."""
        return Cell(self.none if value is None else written(value))


def cost_rows(comparison: Comparison, wording: Wording) -> list[Row]:
    """What each mode costs, with its ratio to edge-only (to cloud-only where edge-only was not compared)."""
    by_edge = "edge" in comparison.modes

    def compared(label: str, figure: Callable[[ModeFigures], Figure], written: Callable[[float], str]) -> Row:
        cells = []
        for mode in comparison.costs:
            found = figure(mode)
            more, spread = wording.ratio(found.to_edge if by_edge else found.to_cloud)
            cells.append(Cell(wording.plain(found.value, written).value, more, spread))
        return Row(label, tuple(cells))

    def alone(label: str, cell: Callable[[ModeFigures], Cell]) -> Row:
        return Row(label, tuple(cell(mode) for mode in comparison.costs))

    rows = [compared("total time", lambda mode: mode.total_s, seconds)]
    if by_edge and "cloud" in comparison.modes:
        rows.append(alone("  of cloud's", lambda mode: Cell(*_first_of(wording.ratio(mode.total_s.to_cloud)))))
    linked = []
    if any(mode.network_s is not None for mode in comparison.costs):
        linked.append(alone("on the link", lambda mode: wording.plain(mode.network_s, seconds)))
    if any(mode.hidden_share is not None for mode in comparison.costs):
        linked.append(alone("flights hidden", lambda mode: wording.share(mode.hidden_share)))
    if any(mode.degraded for mode in comparison.costs):
        linked.append(alone("degraded", lambda mode: Cell(f"{mode.degraded} clips")))
    if any(mode.near_ties for mode in comparison.costs):
        linked.append(alone("near ties", lambda mode: wording.plain(mode.near_ties, whole)))
    return [
        *rows,
        compared("first token", lambda mode: mode.ttft_ms, milliseconds),
        compared("tokens/s", lambda mode: mode.tokens_per_s, short),
        compared("input tokens/s", lambda mode: mode.input_tokens_per_s, short),
        compared("tokens", lambda mode: mode.tokens, whole),
        compared("edge forwards", lambda mode: mode.forwards_edge, whole),
        compared("cloud forwards", lambda mode: mode.forwards_cloud, whole),
        alone("cloud calls", lambda mode: wording.plain(mode.cloud_calls, whole)),
        alone("clips escalated", lambda mode: wording.plain(mode.clips_asked, whole)),
        alone("escalated", lambda mode: wording.share(mode.escalation_rate)),
        alone("by the edge", lambda mode: wording.share(mode.edge_token_share)),
        alone("accepted", lambda mode: wording.share(mode.acceptance_rate)),
        alone("uplink", lambda mode: Cell(_bytes(mode.uplink_bytes))),
        *linked,
        compared("CPU time", lambda mode: mode.cpu_s, seconds),
        alone("CPU", lambda mode: wording.plain(mode.cpu_percent, lambda value: f"{value:.0f}%")),
    ]


def agreement_rows(comparison: Comparison, wording: Wording) -> Iterator[Row]:
    """How near each mode's captions are to the cloud's; none without cloud-only."""
    if all(mode.agreement is None for mode in comparison.quality):
        return

    def row(label: str, cell: Callable[[ModeQuality], Cell]) -> Row:
        return Row(label, tuple(cell(mode) if mode.agreement else Cell(wording.none) for mode in comparison.quality))

    yield row("equal", lambda mode: Cell(percentage(mode.agreement.exact)) if mode.agreement else Cell(""))
    yield row("chrF", lambda mode: Cell(f"{mode.agreement.chrf:.1f}") if mode.agreement else Cell(""))
    yield row("edited tokens", lambda mode: Cell(f"{mode.agreement.edit_tokens:.2f}") if mode.agreement else Cell(""))
    yield row("classes", lambda mode: wording.share(mode.agreement.label_mean) if mode.agreement else Cell(""))
    if any(mode.labels for mode in comparison.quality):
        return  # they are shown against the references
    for attribute in comparison.attributes:
        cells = [mode.agreement.labels.get(attribute) if mode.agreement else None for mode in comparison.quality]
        if any(value is not None for value in cells):
            yield Row(f"  {attribute}", tuple(wording.plain(value, percentage) for value in cells))


def reference_rows(comparison: Comparison, wording: Wording) -> Iterator[Row]:
    """Each mode's captions against the references; none without them."""
    for name, label in (
        ("bleu_1", "BLEU-1"),
        ("bleu_2", "BLEU-2"),
        ("bleu_3", "BLEU-3"),
        ("bleu_4", "BLEU-4"),
        ("chrf", "chrF"),
        ("rouge_l", "ROUGE-L"),
        ("bertscore", "BERTScore"),
    ):
        values = [getattr(mode.text, name) if mode.text else None for mode in comparison.quality]
        if any(value is not None for value in values):
            yield Row(label, tuple(wording.plain(value, lambda score: f"{score:.1f}") for value in values))
    if any(mode.label_mean for mode in comparison.quality):
        yield Row("classes", tuple(wording.share(mode.label_mean) for mode in comparison.quality))
    for attribute in comparison.attributes:
        found = [mode.labels.get(attribute) for mode in comparison.quality]
        if any(found):
            yield Row(f"  {attribute}", tuple(_class_cell(labels, wording) for labels in found))


def _class_cell(labels: LabelQuality | None, wording: Wording) -> Cell:
    if labels is None:
        return Cell(wording.none)
    share = wording.share(labels.accuracy)
    return Cell(share.value, share.spread, f"F1 {100 * labels.macro_f1:.0f}")


def short(value: float) -> str:
    """Three figures: `0.98`, `2.61`, `12.3`, `208`."""
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def percentage(share: float) -> str:
    """`84.2%`."""
    return f"{100 * share:.1f}%"


def whole(value: float) -> str:
    """A count; of repeats the median counts, so that a half may come up."""
    return f"{value:.0f}" if value == round(value) else f"{value:.1f}"


def _bytes(count: int) -> str:
    if count < 1000:
        return f"{count} B"
    return f"{count / 1e3:.1f} kB" if count < 1e6 else f"{count / 1e6:.1f} MB"


def _first_of(ratio: tuple[str, str]) -> tuple[str, str, str]:
    return ratio[0], "", ratio[1]
