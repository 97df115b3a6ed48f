"""The rounds of a run as they are printed: tokens with their figures, the gate's decision, what the cloud accepted.

A draft that is gated as a whole is shown clause by clause, with the gate's verdict and the cloud's part below it. Other
blocks have their decision and times beside them, below them on a narrow terminal.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from specdec_cli.console.cells import Prose
from specdec_cli.console.theme import ASKED, BAD, DIM, DOT, GOOD
from specdec_cli.console.tokens import LABEL, WIDEST, cells_of, figure_names, shown, threshold_of, token_rows
from specdec_cli.decoding.gate import crosses
from specdec_cli.format import milliseconds
from specdec_cli.types import LOW_IS_UNSURE, EventText, Round, Sent, Started

_WITHOUT_FIGURE = ("loop", "refusal", "language")
"""Reasons to escalate that no figure of the gate decides."""
_FACTS = 36
"""Cells beside a block for what became of it."""
_BESIDE_FROM = 76
"""Cells of a terminal that has room for them."""


def flight(sent: Sent, text: EventText) -> Text:
    """A block that is on its way to the cloud."""
    words = " ".join(map(shown, text.draft_pieces))
    return Text.assemble((f"block {sent.index + 1}: ", DIM), (words, DIM), (" in flight…", ASKED))


def render_round(
    round_: Round, text: EventText, clip: Started, width: int, *, in_prefill: bool = False
) -> Iterator[RenderableType]:
    """What is printed of one round of `clip` on a terminal of `width` cells.

    `in_prefill`: whether the cloud verified in the forward of its prefill, which has a line of its own.
    """
    names = figure_names(clip.settings)
    cells = list(cells_of(round_, text, clip.settings))
    if not clip.settings.get("defer") or clip.mode not in ("hybrid", "lossless"):
        label = str(round_.index + 1)
        facts = [fact for fact in (_decision(round_, clip), _times(round_, clip, in_prefill=in_prefill)) if fact]
        if width < _BESIDE_FROM:
            yield from token_rows(label, cells, width, names)
            yield _named("", Text(DOT).join(facts))
            return
        beside = min(width, WIDEST) - _FACTS - 2
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(width=beside)
        table.add_column()
        table.add_row(Group(*token_rows(label, cells, beside, names)), Text("\n").join(facts))
        yield table
        return
    yield from token_rows("" if round_.draft_ids else "cloud", cells, width, names, by_clause=True)
    if round_.draft_ids:
        verdict = (verdict_of(round_, clip.settings), ASKED if round_.escalated else "")
        yield _named("gate", Text.assemble(verdict, (f"{DOT}drafted in {milliseconds(round_.draft_ms)}", DIM)))
    if round_.escalated or not round_.draft_ids:
        outcome = [f"{_accepted(round_)} accepted"] if round_.escalated else []
        outcome.append("verified in the prefill" if in_prefill else f"verified in {milliseconds(round_.verify_ms)}")
        outcome += [f"{milliseconds(round_.network_ms)} on the link"] if round_.network_ms is not None else []
        yield _named("cloud" if round_.escalated else "", Text(DOT.join(outcome), DIM))


def _named(name: str, body: Text) -> Prose:
    return Prose(body, Text(f"{name:>{LABEL}}", DIM), LABEL + 1)


def _decision(round_: Round, clip: Started) -> Text:
    """`edge`, or why the block was escalated, the figure that decided it, and how much of it the cloud accepted."""
    if clip.mode in ("edge", "cloud"):
        return Text()
    if not round_.escalated:
        return Text("edge", DIM)
    why = Text("cloud", ASKED if clip.mode == "hybrid" else DIM)
    if round_.reason not in ("always", None):
        figure = "" if round_.reason in _WITHOUT_FIGURE or round_.gate_value is None else f" {round_.gate_value:.2f}"
        why = Text(f"cloud: {round_.reason}{figure}", BAD if round_.reason == "loop" else ASKED)
    return Text.assemble(why, (DOT, DIM), _accepted(round_), " accepted")


def _accepted(round_: Round) -> Text:
    """How much of the draft the cloud took: `3/5`."""
    accepted, drafted = round_.accepted, len(round_.draft_ids)
    return Text(f"{accepted}/{drafted}", GOOD if accepted == drafted else ASKED)


def _times(round_: Round, clip: Started, *, in_prefill: bool) -> Text:
    if clip.mode in ("edge", "cloud"):
        alone = round_.verify_ms if clip.mode == "cloud" and round_.verify_ms is not None else round_.draft_ms
        return Text(milliseconds(alone), DIM)
    times = [f"draft {milliseconds(round_.draft_ms)}"]
    if round_.verify_ms is not None:
        times.append("verify in prefill" if in_prefill else f"verify {milliseconds(round_.verify_ms)}")
    times += [f"link {milliseconds(round_.network_ms)}"] if round_.network_ms is not None else []
    return Text(DOT.join(times), DIM)


def verdict_of(round_: Round, settings: dict[str, object]) -> str:
    """The gate's decision on a whole draft, in words, with the figure and the threshold that decided it."""
    outcome = "the cloud verifies the draft" if round_.escalated else "the draft is kept, the cloud is not called"
    gate = str(settings.get("gate"))
    if round_.reason in _WITHOUT_FIGURE:
        return f"{round_.reason}: {outcome}"
    threshold = threshold_of(settings, waking=round_.waking)
    if round_.gate_value is None or threshold is None or gate in ("always", "never"):
        return outcome
    low, escalates = gate in LOW_IS_UNSURE, crosses(gate, round_.gate_value, threshold)
    relation = ("at or " if escalates else "") + ("below" if low is escalates else "above")
    return f"{gate} {round_.gate_value:.2f}, {relation} {threshold:g}: {outcome}"
