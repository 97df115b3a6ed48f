"""What a clip came to: counted from its rounds, said in words and in figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.text import Text

from specdec_cli.console.cells import clean
from specdec_cli.console.theme import ASKED, BAD, DIM, STRONG, Signs
from specdec_cli.report.figures import NONE, count, milliseconds, percent, seconds
from specdec_cli.types import Finished, FinishReason, Mode, Round

_ENDINGS: dict[FinishReason, tuple[str, str]] = {
    "max_tokens": ("stopped at the token limit", ASKED),
    "sentences": ("stopped after the set number of sentences", DIM),
    "stop_string": ("stopped at a stop string", DIM),
    "loop": ("stopped: the text repeated itself, and neither model broke the loop", BAD),
}


def verified(rounds: Sequence[Round], mode: Mode) -> str:
    """In words, how much the cloud had to do with it."""
    if mode in ("edge", "cloud"):
        return f"the {mode} generated every token"
    escalated = sum(round_.escalated for round_ in rounds)
    if mode == "lossless":
        return "the cloud verified every round"
    return f"the cloud verified {escalated or 'none'} of {count(len(rounds), 'round')}"


def classes(labels: Mapping[str, str | None], separator: str) -> str:
    """The classes that a caption says: "voice male · rate slow"; attributes that it says nothing about are left out."""
    said = [f"{attribute} {class_}" for attribute, class_ in labels.items() if class_ is not None]
    return separator.join(said) or "none found"


def _speed(event: Finished) -> str:
    """Tokens a second, from the start of decoding to its end."""
    tokens = len(event.token_ids)
    return f"{tokens / event.total_ms * 1000:.1f} tokens/s" if event.total_ms > 0 else f"{NONE} tokens/s"


def summary(rounds: Sequence[Round], event: Finished, mode: Mode, signs: Signs) -> list[tuple[str, Text]]:
    """The totals of a clip, each line under a name."""
    dot = f" {signs.dot} "
    escalated = [round_ for round_ in rounds if round_.escalated]
    drafted, accepted = sum(len(r.draft_ids) for r in escalated), sum(r.accepted for r in escalated)
    sources = Counter(source for round_ in rounds for source in round_.source)
    words = Text(verified(rounds, mode), style=STRONG)
    if mode == "hybrid" and escalated:
        words.append(f" ({percent(len(escalated) / len(rounds))})")
    tokens = [f"{len(event.token_ids)} in {count(len(rounds), 'round')}"]
    if mode in ("hybrid", "lossless") and sources:
        edge = percent((sources["edge"] + sources["accepted"]) / sources.total())
        tokens.append(f"{edge} of them drafted by the edge")
    lines = [("rounds", words), ("tokens", Text(dot.join(tokens)))]
    if drafted:
        cloud = [f"{accepted} of {count(drafted, 'drafted token')} ({percent(accepted / drafted)})"]
        cloud += [count(sources["corrected"], "correction"), f"{sources['bonus']} bonus"]
        cloud += [f"{sources['cloud']} run on"] if sources["cloud"] else []
        lines.append(("accepted", Text(dot.join(cloud))))
    if ties := near_ties(rounds):
        what = "best scores that the cloud's number format cannot tell apart"
        lines.append(("ties", Text(f"{count(ties, 'near tie')}: {what}")))
    if link := _link(rounds):
        lines.append(("link", Text(dot.join(link))))
    times = [f"first token {milliseconds(event.ttft_ms)}", f"total {seconds(event.total_ms / 1000)}", _speed(event)]
    lines.append(("time", Text(dot.join(times))))
    if event.degraded is not None:
        lines.append(("degraded", Text(clean(event.degraded), style=BAD)))
    if event.finish_reason in _ENDINGS:
        ending, style = _ENDINGS[event.finish_reason]
        lines.append(("end", Text(f"{ending} ({event.finish_reason})", style=style)))
    return lines


def _link(rounds: Sequence[Round]) -> list[str]:
    """What the link cost, and what of it drafting ahead hid."""
    network = [round_.network_ms for round_ in rounds if round_.network_ms is not None]
    hidden = [round_ for round_ in rounds if round_.hidden_ms is not None]
    facts = []
    if network:
        facts += [count(len(network), "exchange"), f"{seconds(sum(network) / 1000)} on the link"]
    if hidden:
        facts.append(f"{milliseconds(sum(round_.hidden_ms or 0.0 for round_ in hidden))} of drafting hidden")
        facts.append(f"{count(sum(round_.thrown_away for round_ in hidden), 'token')} drafted ahead in vain")
    return facts


def one_line(rounds: Sequence[Round], event: Finished, mode: Mode) -> str:
    """The totals for a log."""
    parts = [
        count(len(event.token_ids), "token"),
        verified(rounds, mode),
        f"{milliseconds(event.ttft_ms)} to the first token",
        f"{seconds(event.total_ms / 1000)} in all",
        _speed(event),
    ]
    if ties := near_ties(rounds):
        parts.append(count(ties, "near tie"))
    if event.degraded is not None:
        parts.append(f"degraded: {event.degraded}")
    if event.finish_reason in _ENDINGS:
        parts.append(f"{_ENDINGS[event.finish_reason][0]} ({event.finish_reason})")
    return ", ".join(parts)


def near_ties(rounds: Sequence[Round]) -> int:
    """Verified positions whose two best scores the cloud's number format cannot tell apart."""
    return sum(round_.near_ties or 0 for round_ in rounds)
