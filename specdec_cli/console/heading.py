"""What stands above the rounds of a clip: the file, the models, the settings, the signs."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text

from specdec_cli.config.schema import AcceptanceConfig, DecodingConfig, GateConfig, PromptConfig
from specdec_cli.console import entropy, tokens
from specdec_cli.console.cells import clean, fit, fit_end, hanging
from specdec_cli.console.figures import milliseconds, seconds, setting
from specdec_cli.console.theme import BAD, DIM, STRONG, Signs
from specdec_cli.transcript.schema import SUGGESTED
from specdec_cli.transcript.suggested import suggestions_in_words
from specdec_cli.types import Prefill, Started

INDENT = 10
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
    """The models in use, the settings that matter first, and the prompt."""
    lines = []
    for label, model in (("edge", event.edge), ("cloud", event.cloud)):
        if model is not None:
            lines.append(
                _labelled(label, fit(clean(model).replace("·", signs.dot), width - INDENT - 1, signs.ellipsis))
            )
    lines += _settings(event, width, signs)
    lines.append(_labelled("prompt", fit(clean(event.prompt), width - INDENT - 1, signs.ellipsis)))
    for warning in event.warnings:
        lines += hanging(Text.assemble(" ", ("warning", BAD)), Text(clean(warning)), INDENT, width - 1)
    return lines


def _labelled(label: str, value: str) -> Text:
    return Text.assemble(" ", (f"{label:<{INDENT - 1}}", DIM), value)


def _settings(event: Started, width: int, signs: Signs) -> list[Text]:
    body = Text()
    for name, value in _worth_telling(event):
        body.append_text(Text.assemble((f" {signs.dot} " if body else "", DIM), (f"{name}{_TIE}", DIM), value))
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
    own = {name: value for name, value in event.settings.items() if name != SUGGESTED and value is not None}
    written = {name: setting(value) for name, value in own.items()}
    changed = [name for name in written if name not in _ALWAYS and written[name] != _DEFAULTS.get(name)]
    for name in _ALWAYS:
        if name in written:
            yield clean(name), clean(written[name])
    for name, value in suggestions_in_words(event.settings.get(SUGGESTED)):
        yield clean(name), clean(value)
    for name in changed:
        yield clean(name), clean(written[name])


def legend_lines(event: Started, width: int, signs: Signs) -> list[Text]:
    """What the signs and the bars mean, in one line where there is room and in two where there is not."""
    bars = entropy.legend(entropy.threshold_of(event.settings), signs, entropy.figure_of(event.settings))
    parts = [tokens.legend(signs, event.mode, run_on=event.settings.get("run_on", 0) != 0), bars]
    body = Text("   ").join([part for part in parts if part is not None])
    return hanging(Text.assemble(" ", ("signs", DIM)), body, INDENT, width - 1)


def prefill_line(event: Prefill, width: int, signs: Signs) -> Text:
    """How long a model took to encode the recording and to prefill its prompt."""
    facts = [f"{event.model} prefilled {event.tokens} tokens", f"encoder {milliseconds(event.encoder_ms)}"]
    facts.append(f"prefill {milliseconds(event.prefill_ms)}")
    text = f" {signs.dot} ".join(facts)
    return Text(fit(" " * (7 if width >= 96 else 6) + text, width - 1, signs.ellipsis), style=DIM)
