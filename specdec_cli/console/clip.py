"""What stands around the rounds of a clip: file, models, settings and signs above them, what they came to below."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.cells import cell_len
from rich.constrain import Constrain
from rich.rule import Rule
from rich.text import Text

from specdec_cli.config.schema import AcceptanceConfig, DecodingConfig, GateConfig, PromptConfig
from specdec_cli.console.cells import PROSE_WIDTH, Prose, clean, fit_end
from specdec_cli.console.theme import ASKED, BAD, DIM, DOT, RULE, STRONG
from specdec_cli.console.tokens import figures_legend, signs_legend
from specdec_cli.format import contradiction, count, measured, milliseconds, percent, seconds, setting
from specdec_cli.transcript.terms import SUGGESTED, suggestions_in_words
from specdec_cli.types import FLAG_WORDS, EventText, Finished, FinishReason, Flag, Mode, Prefill, Round, Started

INDENT = 10
_NEVER: tuple[str, ...] = (SUGGESTED, "gate_weights", "wake_weights")  # a digest tells a reader nothing
_ALWAYS = ("k", "gate", "threshold", "acceptance", "temperature", "max_new_tokens")
_DEFAULTS = {
    name: setting(field.default)
    for section in (DecodingConfig, GateConfig, AcceptanceConfig, PromptConfig)
    for name, field in section.model_fields.items()
}
_ENDINGS: dict[FinishReason, tuple[str, str]] = {
    "max_tokens": ("stopped at the token limit", ASKED),
    "sentences": ("stopped after the set number of sentences", DIM),
    "stop_string": ("stopped at a stop string", DIM),
    "closing": ("stopped where it went on to something else than a description", DIM),
    "loop": ("stopped: the text repeated itself, and neither model broke the loop", BAD),
}


def labelled(label: str, body: Text, style: str = DIM) -> Prose:
    """`body` beside its label."""
    return Prose(body, Text(f" {label}", style), INDENT)


def file_line(event: Started, width: int) -> Constrain:
    """The file and the facts about it in a rule; of a long path, its end."""
    facts = [seconds(event.duration_s), event.language, event.mode]
    if event.start_s is not None and event.end_s is not None:
        facts[0] = f"{seconds(event.start_s)} to {seconds(event.end_s)}"
    if event.no_speech:
        facts.append("no speech found")
    tail = clean(DOT.join(["", *facts]))
    name = fit_end(clean(event.file), max(min(width, PROSE_WIDTH) - cell_len(tail) - 6, 8))
    title = Text.assemble((RULE * 2, DIM), " ", (name, STRONG), tail)
    return Constrain(Rule(title, align="left", characters=RULE, style=DIM), PROSE_WIDTH)


def heading(event: Started) -> Iterator[Prose]:
    """The models in use, the settings that matter first, the prompt, warnings, and what the signs mean."""
    for label, name in (("edge", event.edge), ("cloud", event.cloud)):
        if name is not None:
            yield labelled(label, Text(clean(name)))
    settings = [Text.assemble((f"{clean(name)}\xa0", DIM), clean(value)) for name, value in _worth_showing(event)]
    if settings:
        yield labelled("settings", Text.assemble((DOT, DIM)).join(settings))
    yield labelled("prompt", Text(clean(event.prompt)))
    for warning in event.warnings:
        yield labelled("warning", Text(clean(warning)), BAD)
    yield labelled("signs", signs_legend(event.mode, run_on=event.settings.get("run_on", 0) != 0))
    yield labelled("figures", Text(figures_legend(event.settings)))


def _worth_showing(event: Started) -> Iterator[tuple[str, str]]:
    """The settings that shape every run, what checkpoints add to them, and those that are not at their default."""
    hidden = (*_NEVER, "stop_drafting")
    if event.settings.get("defer"):
        yield "block", "the whole draft (k does not count)"
        hidden = (*hidden, "k", "defer")
    own = {name: setting(value) for name, value in event.settings.items() if name not in hidden and value is not None}
    if event.settings.get("stop_drafting") and "k" in own:
        own["k"] += " at most"
    yield from ((name, own[name]) for name in _ALWAYS if name in own)
    yield from suggestions_in_words(event.settings.get(SUGGESTED))
    yield from ((name, own[name]) for name in own if name not in _ALWAYS and own[name] != _DEFAULTS.get(name))


def prefill_line(event: Prefill, *, verified: bool) -> Prose:
    """How long a model took to encode the recording and to prefill its prompt.

    `verified`: whether the same forward verified the first block that was escalated.
    """
    what = "prefill with first verification" if verified else "prefill"
    facts = [f"{event.model} prefilled {count(event.tokens, 'token')}", f"encoder {milliseconds(event.encoder_ms)}"]
    return Prose(Text(DOT.join([*facts, f"{what} {milliseconds(event.prefill_ms)}"]), DIM), indent=6)


def verified(rounds: Sequence[Round], mode: Mode) -> str:
    """In words, how much the cloud had to do with it."""
    if mode in ("edge", "cloud"):
        return f"the {mode} generated every token"
    escalated = sum(round_.escalated for round_ in rounds)
    if mode == "lossless" and escalated == len(rounds):
        return "the cloud verified every round"
    return f"the cloud verified {escalated or 'none'} of {count(len(rounds), 'round')}"


def classes(text: EventText) -> str:
    """The classes that a caption says: "voice male 98% · rate slow 71%"; attributes that it leaves out are left out."""
    known = {name: f" {percent(p)}" for name, p in text.probabilities.items()}
    said = (text.labels or {}).items()
    return DOT.join(f"{name} {class_}{known.get(name, '')}" for name, class_ in said if class_) or "none found"


def measurements(clip: Started, text: EventText) -> list[tuple[str, Text]]:
    """What was measured, and which of the caption's classes fit it."""
    lines = [] if clip.measured is None else [("measured", Text(", ".join(measured(clip.measured))))]
    agreeing = [claim.attribute for claim in text.claims or () if claim.agrees]
    differing = [contradiction(claim) for claim in text.claims or () if claim.agrees is False]
    lines += [("agrees", Text(clean(", ".join(agreeing))))] if agreeing else []
    return lines + ([("differs", Text(clean("; ".join(differing)), BAD))] if differing else [])


def flagged(flags: Iterable[Flag]) -> str:
    """In words, what makes a caption no description."""
    return "; ".join(FLAG_WORDS[flag] for flag in flags)


def count_flags(flags: Mapping[Flag, int]) -> str:
    """How many captions have each flag: "1 refused by the model, 2 without speech (may be invented)"."""
    return ", ".join(f"{number:,} {FLAG_WORDS[flag]}" for flag, number in sorted(flags.items()))


def summary(clip: Started, rounds: Sequence[Round], event: Finished, text: EventText) -> list[tuple[str, Text]]:
    """What a clip came to, each line under a name: its flags, classes and figures, then the totals."""
    lines = [("flags", Text(flagged(text.flags), BAD))] if text.flags else []
    lines += [("labels", Text(classes(text)))] if text.labels is not None else []
    lines += measurements(clip, text)
    return lines + _totals(rounds, event, clip.mode)


def _totals(rounds: Sequence[Round], event: Finished, mode: Mode) -> list[tuple[str, Text]]:
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
    lines = [("rounds", words), ("tokens", Text(DOT.join(tokens)))]
    if drafted:
        cloud = [f"{accepted} of {count(drafted, 'drafted token')} ({percent(accepted / drafted)})"]
        cloud += [count(sources["corrected"], "correction"), f"{sources['bonus']} bonus"]
        cloud += [f"{sources['cloud']} run on"] if sources["cloud"] else []
        lines.append(("accepted", Text(DOT.join(cloud))))
    if ties := sum(round_.near_ties or 0 for round_ in rounds):
        what = "best scores that the cloud's number format cannot tell apart"
        lines.append(("ties", Text(f"{count(ties, 'near tie')}: {what}")))
    if link := _link(rounds):
        lines.append(("link", Text(DOT.join(link))))
    times = [f"first token {milliseconds(event.ttft_ms)}", f"total {seconds(event.total_ms / 1000)}"]
    times += [f"{len(event.token_ids) / event.total_ms * 1000:.1f} tokens/s"] if event.total_ms > 0 else []
    lines.append(("time", Text(DOT.join(times))))
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
