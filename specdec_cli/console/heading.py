"""What stands above the rounds of a clip: the file, the models, the settings, the signs."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text

from specdec_cli.config.schema import AcceptanceConfig, DecodingConfig, GateConfig, PromptConfig
from specdec_cli.console import entropy, tokens
from specdec_cli.console.cells import clean, fit, fit_end, hanging
from specdec_cli.console.theme import BAD, DIM, STRONG, Signs
from specdec_cli.report.figures import count, milliseconds, seconds, setting
from specdec_cli.transcript.terms import SUGGESTED, suggestions_in_words
from specdec_cli.types import Prefill, Started

INDENT = 10
_NEVER = ("gate_weights",)  # a digest tells a reader nothing
_ALWAYS = ("k", "gate", "threshold", "acceptance", "temperature", "max_new_tokens")
_DEFAULTS = {
    name: setting(field.default)
    for section in (DecodingConfig, GateConfig, AcceptanceConfig, PromptConfig)
    for name, field in section.model_fields.items()
}
_SETTING_LINES = 2
_TIE = "\xa0"  # keeps a name and its value in one line


def file_line(event: Started, width: int, signs: Signs) -> Text:
    """The file between two stretches of rule, and the facts about it; the name gives way first."""
    facts = [seconds(event.duration_s), event.language, event.mode]
    if event.start_s is not None and event.end_s is not None:
        facts[0] = f"{seconds(event.start_s)} to {seconds(event.end_s)}"
    if event.no_speech:
        facts.append("no speech found")
    tail = clean(f" {signs.dot} ".join(facts))
    name = fit_end(clean(event.file), max(width - cell_len(tail) - 8, 8), signs.ellipsis)
    rule = signs.rule * max(min(width, 110) - cell_len(name) - cell_len(tail) - 7, 1)
    line = Text.assemble((signs.rule * 2 + " ", DIM), (name, STRONG), (f" {rule} ", DIM), tail)
    line.truncate(width, overflow="crop")
    return line


def model_lines(event: Started, width: int, signs: Signs) -> list[Text]:
    """The models in use, the settings that matter first, the prompt, and warnings."""

    def line(label: str, value: str) -> Text:
        fitted = fit(clean(value).replace("·", signs.dot), width - INDENT - 1, signs.ellipsis)
        return Text.assemble(" ", (f"{label:<{INDENT - 1}}", DIM), fitted)

    models = [line(label, name) for label, name in (("edge", event.edge), ("cloud", event.cloud)) if name is not None]
    lines = [*models, *_settings(event, width, signs), line("prompt", event.prompt)]
    for warning in event.warnings:
        lines += hanging(Text.assemble(" ", ("warning", BAD)), Text(clean(warning)), INDENT, width - 1)
    return lines


def _settings(event: Started, width: int, signs: Signs) -> list[Text]:
    body = Text()
    for name, value in _worth_telling(event):
        dot = f" {signs.dot} " if body else ""
        body.append_text(Text.assemble((dot, DIM), (f"{clean(name)}{_TIE}", DIM), clean(value)))
    if not body:
        return []
    lines = hanging(Text.assemble(" ", ("settings", DIM)), body, INDENT, width - 1)
    for line in lines:
        line.plain = line.plain.replace(_TIE, " ")
    if len(lines) > _SETTING_LINES:
        lines = lines[:_SETTING_LINES]
        lines[-1].truncate(width - 1 - cell_len(signs.ellipsis) - 1)
        lines[-1].append(f" {signs.ellipsis}", style=DIM)
    return lines


def _worth_telling(event: Started) -> Iterator[tuple[str, str]]:
    """The settings that shape every run, what checkpoints add to them, and those that somebody changed."""
    hidden = (SUGGESTED, *_NEVER)
    own = {name: setting(value) for name, value in event.settings.items() if name not in hidden and value is not None}
    yield from ((name, own[name]) for name in _ALWAYS if name in own)
    yield from suggestions_in_words(event.settings.get(SUGGESTED))
    yield from ((name, own[name]) for name in own if name not in _ALWAYS and own[name] != _DEFAULTS.get(name))


def legend_lines(event: Started, width: int, signs: Signs) -> list[Text]:
    """What the signs and the bars mean."""
    marks = tokens.legend(signs, event.mode, run_on=event.settings.get("run_on", 0) != 0)
    bars = entropy.legend(entropy.threshold_of(event.settings), signs, entropy.figure_of(event.settings))
    lines = []
    for label, body in (("signs", marks), ("bars", bars)):
        lines += hanging(Text.assemble(" ", (label, DIM)), body, INDENT, width - 1)
    return lines


def prefill_lines(event: Prefill, width: int, signs: Signs, *, verified: bool) -> list[Text]:
    """How long a model took to encode the recording and to prefill its prompt.

    `verified`: whether the same forward verified the first block that was escalated.
    """
    what = "prefill with first verification" if verified else "prefill"
    facts = [f"{event.model} prefilled {count(event.tokens, 'token')}", f"encoder {milliseconds(event.encoder_ms)}"]
    body = Text(f" {signs.dot} ".join([*facts, f"{what} {milliseconds(event.prefill_ms)}"]), style=DIM)
    return hanging(Text(), body, 7 if width >= 96 else 6, width - 1)
