"""The lines around the rounds of a clip: file, models, settings and signs above them, flags and totals below."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.cells import cell_len
from rich.constrain import Constrain
from rich.rule import Rule
from rich.text import Text

from specdec_cli.console.cells import PROSE_WIDTH, Prose, fit_end
from specdec_cli.console.rounds import LABELS_LEGEND, SIGNS_LEGEND, against_sound, figures_legend
from specdec_cli.console.theme import BAD, DIM, DOT, NOTICE, RULE, STRONG
from specdec_cli.format import count, measured, percent, setting
from specdec_cli.text import clean
from specdec_cli.times import milliseconds, seconds
from specdec_cli.transcript.recorder import totals
from specdec_cli.transcript.records import Started
from specdec_cli.transcript.round import Round
from specdec_cli.transcript.updates import EventText
from specdec_cli.types import FLAG_WORDS, Finished, Flag, Mode, Prefill

INDENT = 10
_SETTINGS = ("k", "gate", "threshold", "wake", "acceptance", "temperature", "max_new_tokens")


def labelled(label: str, body: Text, style: str = DIM) -> Prose:
    """`body` beside its label."""
    return Prose(body, Text(f" {label}", style), INDENT)


def name(clip: Started) -> str:
    """The name of a clip: its file, or the number of the piece."""
    return clip.file if clip.piece is None else f"piece {clip.piece + 1} of {clip.pieces}"


def place(clip: Started) -> str:
    """A line of a log: file, length, language and mode; of a piece, its times."""
    facts = f"{clip.file}: {seconds(clip.duration_s)}, {clip.language}, {clip.mode}"
    if clip.piece is not None:
        facts = f"{clip.file}, {name(clip)}: {clip.start_s or 0.0:.2f} to {clip.end_s or 0.0:.2f} s"
    facts += "" if clip.channel is None else f", channel {clip.channel}"
    return f"{facts}, no speech found" if "no_speech" in clip.flags else facts


def file_line(event: Started, width: int) -> Constrain:
    """A rule with the end of the file's path and the facts about the clip."""
    facts = [seconds(event.duration_s), event.language, event.mode]
    if event.start_s is not None and event.end_s is not None:
        facts[0] = f"{seconds(event.start_s)} to {seconds(event.end_s)}"
    if event.channel is not None:
        facts.append(f"channel {event.channel}")
    if "no_speech" in event.flags:
        facts.append("no speech found")
    tail = clean(DOT.join(["", *facts]))
    name = fit_end(clean(event.file), max(min(width, PROSE_WIDTH) - cell_len(tail) - 6, 8))
    title = Text.assemble((RULE * 2, DIM), " ", (name, STRONG), tail)
    return Constrain(Rule(title, align="left", characters=RULE, style=DIM), PROSE_WIDTH)


def heading(event: Started) -> Iterator[Prose]:
    """The models in use, the settings that matter most, the prompt, warnings, and what the signs mean."""
    for role, model in event.models:
        if model is not None:
            yield labelled(role, Text(clean(model.line)))
    known = {name: setting(event.settings[name]) for name in _SETTINGS if event.settings.get(name) is not None}
    settings = [Text.assemble((f"{name}\xa0", DIM), clean(value)) for name, value in known.items()]
    yield labelled("settings", Text.assemble((DOT, DIM)).join(settings))
    yield labelled("prompt", Text(clean(event.prompt)))
    for warning in event.warnings:
        yield labelled("warning", Text(clean(warning)), BAD)
    yield labelled("signs", Text(SIGNS_LEGEND))
    yield labelled("figures", Text(figures_legend(event.settings)))
    yield labelled("labels", Text(LABELS_LEGEND))


def prefill_line(event: Prefill) -> Prose:
    """How long a model took to encode the recording and to prefill its prompt."""
    facts = [f"{event.model} prefilled {count(event.tokens, 'token')}", f"encoder {milliseconds(event.encoder_ms)}"]
    return Prose(Text(DOT.join([*facts, f"prefill {milliseconds(event.prefill_ms)}"]), DIM), indent=6)


def flagged(flags: Iterable[Flag]) -> str:
    """The flags of a caption, in words."""
    return "; ".join(FLAG_WORDS[flag] for flag in flags)


def count_flags(flags: Mapping[Flag, int]) -> str:
    """How many captions have each flag: "1 refused by the model, 2 without speech (may be invented)"."""
    return ", ".join(f"{number:,} {FLAG_WORDS[flag]}" for flag, number in sorted(flags.items()))


def summary(clip: Started, rounds: Sequence[Round], event: Finished, text: EventText) -> Iterator[tuple[str, Text]]:
    """Label and text of each line below a clip: its flags, classes and figures, then the totals."""
    if text.flags:
        yield "flags", Text(flagged(text.flags), BAD)
    if text.labels is not None:
        known = {attribute: f" {percent(p)}" for attribute, p in text.probabilities.items()}
        said = [
            f"{attribute} {class_}{known.get(attribute, '')}" for attribute, class_ in text.labels.items() if class_
        ]
        yield "labels", Text(DOT.join(said) or "none found")
    if clip.measured is not None:
        yield "measured", Text(", ".join(measured(clip.measured)))
    if checked := [claim for claim in text.claims or () if claim.agrees is not None]:
        yield "sound", against_sound(checked)
    yield from _totals(rounds, event, clip.mode)


def _totals(rounds: Sequence[Round], event: Finished, mode: Mode) -> Iterator[tuple[str, Text]]:
    of_two = mode in ("hybrid", "lossless")
    found = totals(rounds, event, cloud_takes_part=of_two)
    yield "rounds", Text(_verified(found.escalations, found.rounds, mode), STRONG)
    tokens = [f"{found.tokens} in {count(found.rounds, 'round')}"]
    if of_two and found.edge_token_share is not None:
        tokens.append(f"{percent(found.edge_token_share)} of them drafted by the edge")
    yield "tokens", Text(DOT.join(tokens))
    if found.drafted:
        accepted = f"{found.accepted} of {count(found.drafted, 'drafted token')} ({percent(found.acceptance_rate)})"
        yield "accepted", Text(DOT.join([accepted, count(found.corrected, "correction"), f"{found.bonus} bonus"]))
    if found.network_ms is not None:
        exchanges = count(sum(round_.network_ms is not None for round_ in rounds), "exchange")
        yield "network", Text(f"{exchanges}{DOT}{seconds(found.network_ms / 1000)}")
    times = [f"first token {milliseconds(event.ttft_ms)}", f"total {seconds(event.total_ms / 1000)}"]
    times += [f"{found.tokens / event.total_ms * 1000:.1f} tokens/s"] if event.total_ms > 0 else []
    yield "time", Text(DOT.join(times))
    if event.degraded is not None:
        yield "degraded", Text(clean(event.degraded), BAD)
    if event.finish_reason != "eos":
        yield "end", Text(f"stopped by {event.finish_reason}", NOTICE)


def _verified(escalated: int, rounds: int, mode: Mode) -> str:
    """In words, how many of the rounds the cloud verified."""
    if mode in ("edge", "cloud"):
        return f"the {mode} generated every token"
    if not escalated:
        return f"the cloud verified none of {rounds}" if rounds > 1 else "the cloud verified nothing"
    if mode == "lossless" and escalated == rounds:
        return "the cloud verified every round"
    share = f" ({percent(escalated / rounds)})" if mode == "hybrid" else ""
    return f"the cloud verified {escalated} of {count(rounds, 'round')}{share}"
