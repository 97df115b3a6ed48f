"""What a clip came to: counted from its rounds, said in words and in figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from rich.text import Text

from specdec_cli.console.cells import clean
from specdec_cli.console.theme import ASKED, BAD, DIM, STRONG, Signs
from specdec_cli.report.figures import count, milliseconds, percent, seconds
from specdec_cli.types import Finished, FinishReason, Mode, Round, Source

_ENDINGS: dict[FinishReason, tuple[str, str]] = {
    "max_tokens": ("stopped at the token limit", ASKED),
    "sentences": ("stopped after the set number of sentences", DIM),
    "stop_string": ("stopped at a stop string", DIM),
    "loop": ("stopped: the text repeated itself, and neither model broke the loop", BAD),
}


@dataclass(slots=True)
class Tally:
    """Counts over the rounds so far.

    Attributes:
        rounds, escalated: all rounds, and those that were escalated.
        drafted, accepted: tokens of escalated blocks only, so that their ratio is the acceptance rate.
        sources: committed tokens by origin.
        exchanges, network_ms: with a cloud elsewhere, and the time on the link, milliseconds.
        near_ties: verified positions whose two best scores the cloud's number format cannot tell apart.
        hidden_ms: time of drafting that lay within flights, milliseconds; None where nothing is drafted ahead.
        thrown_away: tokens drafted ahead in vain.
    """

    rounds: int = 0
    escalated: int = 0
    drafted: int = 0
    accepted: int = 0
    sources: Counter[Source] = field(default_factory=Counter)
    exchanges: int = 0
    network_ms: float = 0.0
    near_ties: int = 0
    hidden_ms: float | None = None
    thrown_away: int = 0

    def add(self, round_: Round) -> None:
        """Count one more round."""
        self.rounds += 1
        self.sources.update(round_.source)
        self.near_ties += round_.near_ties or 0
        if round_.network_ms is not None:
            self.exchanges += 1
            self.network_ms += round_.network_ms
        if round_.hidden_ms is not None:
            self.hidden_ms = (self.hidden_ms or 0.0) + round_.hidden_ms
            self.thrown_away += round_.thrown_away
        if round_.escalated:
            self.escalated += 1
            self.drafted += len(round_.draft_ids)
            self.accepted += round_.accepted

    @property
    def tokens(self) -> int:
        """Committed tokens."""
        return self.sources.total()

    @property
    def edge_tokens(self) -> int:
        """Committed tokens that the edge drafted."""
        return self.sources["edge"] + self.sources["accepted"]


def verified(tally: Tally, mode: Mode) -> str:
    """In words, how much the cloud had to do with it."""
    if mode == "edge":
        return "the edge generated every token"
    if mode == "cloud":
        return "the cloud generated every token"
    if mode == "lossless":
        return "the cloud verified every round"
    if not tally.escalated:
        return f"the cloud verified none of {count(tally.rounds, 'round')}"
    return f"the cloud verified {tally.escalated} of {count(tally.rounds, 'round')}"


def classes(labels: Mapping[str, str | None], separator: str) -> str:
    """The classes that a caption says: "voice male · rate slow"; attributes that it says nothing about are left out."""
    said = [f"{attribute} {class_}" for attribute, class_ in labels.items() if class_ is not None]
    return separator.join(said) or "none found"


def speed(tokens: int, total_ms: float) -> str:
    """Tokens a second, from the start of decoding to its end."""
    return f"{tokens / total_ms * 1000:.1f} tokens/s" if total_ms > 0 else "- tokens/s"


def summary(tally: Tally, event: Finished, mode: Mode, signs: Signs) -> list[tuple[str, Text]]:
    """The totals of a clip, each line under a name."""
    dot = f" {signs.dot} "
    words = Text(verified(tally, mode), style=STRONG)
    if mode == "hybrid" and tally.escalated:
        words.append(f" ({percent(tally.escalated / tally.rounds)})")
    tokens = [f"{len(event.token_ids)} in {count(tally.rounds, 'round')}"]
    if mode in ("hybrid", "lossless") and tally.tokens:
        tokens.append(f"{percent(tally.edge_tokens / tally.tokens)} of them drafted by the edge")
    lines = [("rounds", words), ("tokens", Text(dot.join(tokens)))]
    if tally.drafted:
        accepted = f"{tally.accepted} of {tally.drafted} drafted tokens ({percent(tally.accepted / tally.drafted)})"
        cloud = [accepted, count(tally.sources["corrected"], "correction")]
        cloud.append(f"{tally.sources['bonus']} bonus")
        if tally.sources["cloud"]:
            cloud.append(f"{tally.sources['cloud']} run on")
        lines.append(("accepted", Text(dot.join(cloud))))
    if tally.near_ties:
        ties = f"{count(tally.near_ties, 'near tie')}: best scores that the cloud's number format cannot tell apart"
        lines.append(("ties", Text(ties)))
    if link := _link(tally):
        lines.append(("link", Text(dot.join(link))))
    times = [
        f"first token {milliseconds(event.ttft_ms)}",
        f"total {seconds(event.total_ms / 1000)}",
        speed(len(event.token_ids), event.total_ms),
    ]
    lines.append(("time", Text(dot.join(times))))
    if event.degraded is not None:
        lines.append(("degraded", Text(clean(event.degraded), style=BAD)))
    if event.finish_reason in _ENDINGS:
        ending, style = _ENDINGS[event.finish_reason]
        lines.append(("end", Text(f"{ending} ({event.finish_reason})", style=style)))
    return lines


def _link(tally: Tally) -> list[str]:
    """What the link cost, and what of it drafting ahead hid."""
    facts = []
    if tally.exchanges:
        facts += [count(tally.exchanges, "exchange"), f"{seconds(tally.network_ms / 1000)} on the link"]
    if tally.hidden_ms is not None:
        facts.append(f"{milliseconds(tally.hidden_ms)} of drafting hidden")
        facts.append(f"{count(tally.thrown_away, 'token')} drafted ahead in vain")
    return facts


def one_line(tally: Tally, event: Finished, mode: Mode) -> str:
    """The totals for a log."""
    parts = [
        count(len(event.token_ids), "token"),
        verified(tally, mode),
        f"{milliseconds(event.ttft_ms)} to the first token",
        f"{seconds(event.total_ms / 1000)} in all",
        speed(len(event.token_ids), event.total_ms),
    ]
    if tally.near_ties:
        parts.append(count(tally.near_ties, "near tie"))
    if event.degraded is not None:
        parts.append(f"degraded: {event.degraded}")
    if event.finish_reason in _ENDINGS:
        parts.append(f"{_ENDINGS[event.finish_reason][0]} ({event.finish_reason})")
    return ", ".join(parts)
