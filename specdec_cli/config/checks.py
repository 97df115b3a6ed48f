"""Values that contradict each other. Each error names both and where they came from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from specdec_cli.config.layers import Given
from specdec_cli.config.locate import is_loopback
from specdec_cli.config.model_schema import CloudConfig, EdgeConfig
from specdec_cli.config.problems import show, show_name
from specdec_cli.config.schema import AcceptanceConfig, Config, ScoringConfig
from specdec_cli.config.settings import settings_of
from specdec_cli.errors import ConfigError
from specdec_cli.types import (
    DEFAULT_THRESHOLDS,
    LOSSY_RULES,
    NOTHING_DONE,
    TOKEN_GATES,
    VLLM_RULES,
    Decider,
)

_OF_A_LINK: Final = ("token_env", "timeout_s", "retry_s", "ca_file", "allow_plain_http")
_OF_LOADING: Final = ("device", "dtype", "device_map", "attention", "quantization", "encoder_dtype", "graphs")
_BOUNDS: Final = {
    "entropy": (0.0, math.inf),
    "class-entropy": (0.0, math.inf),
    "margin": (0.0, 1.0),
    "logprob": (-math.inf, 0.0),
    "learned": (0.0, 1.0),
    "random": (0.0, 1.0),
}
"""Gate -> range of its thresholds."""


class Clash(NamedTuple):
    """Two settings that exclude each other; `needs` is what the first requires."""

    first: str
    second: str
    hint: str
    needs: str = ""


def contradictions(config: Config, given: Mapping[str, Given]) -> list[ConfigError]:
    """Everything in `config` that contradicts something else in it; `given` has the origins by dotted name."""

    def described(name: str) -> str:
        value = given[name].value
        return f"{name} is {show_name(value) if isinstance(value, str) else show(value)} ({given[name].origin})"

    # A file may serve for every mode, but an option that has no effect is refused.
    clashes = [clash for clash in _ignored(config) if given[clash.first].chosen]
    clashes += [*_models(config), *_decoding(config)]
    return [ConfigError(f"{described(c.first)}{c.needs}, but {described(c.second)}.", hint=c.hint) for c in clashes]


def _models(config: Config) -> Iterator[Clash]:
    mode, edge, cloud = config.decoding.mode, config.edge, config.cloud
    if edge is None and mode != "cloud":
        yield Clash("decoding.mode", "edge", "Name one in edge.model, or use mode cloud.", ", which needs that model")
    if cloud is None and mode != "edge":
        yield Clash("decoding.mode", "cloud", "Name one in cloud.model, or use mode edge.", ", which needs that model")
    if edge is not None:
        yield from _model("edge", edge, config, takes_part=mode != "cloud")
        if edge.url is not None and edge.engine != "vllm":
            yield Clash("edge.url", "edge.engine", "An edge at an address is a vllm: set edge.engine to vllm.")
        if edge.url is not None and mode in ("hybrid", "lossless") and cloud is not None and cloud.engine != "vllm":
            yield Clash("edge.engine", "cloud.engine", "In front of a vllm edge the cloud is a vllm, too.")
        if edge.url is not None and mode == "hybrid" and config.gate.name == "random":
            yield Clash("gate.name", "edge.url", "The gate random needs an edge that is loaded here.")
    if cloud is not None:
        yield from _model("cloud", cloud, config, takes_part=mode != "edge")
        if cloud.url is not None and cloud.model is not None and cloud.engine != "vllm":
            hint = "A cloud is loaded here or reached at an address: leave one of them out."
            yield Clash("cloud.url", "cloud.model", hint)
        if cloud.url is not None and edge is None and cloud.processor is None:
            hint = "Name the checkpoint that is served in cloud.processor, or an edge."
            yield Clash("cloud.url", "cloud.processor", hint, ", which needs a tokenizer here")
    if config.prompt.text is not None and not config.prompt.force:
        loaded = [(role, model) for role, model in (("edge", edge), ("cloud", cloud)) if model and model.url is None]
        if mini := next((role for role, model in loaded if model.is_mini), None):
            hint = (
                "These models were trained on the instructions of prompt.style alone, and write broken text for "
                "another. Use other models, or set prompt.force to true."
            )
            yield Clash("prompt.text", f"{mini}.model", hint)


def _model(role: Decider, model: EdgeConfig | CloudConfig, config: Config, *, takes_part: bool) -> Iterator[Clash]:
    if model.device_map is not None and model.device != "auto":
        yield Clash(f"{role}.device_map", f"{role}.device", "A device map chooses the devices: leave one out.")
    plain = model.url is not None and model.url.startswith("http://") and not is_loopback(model.url)
    if plain and not model.allow_plain_http:
        hint = f"Use https://, or set {role}.allow_plain_http: true for a link that is protected in another way."
        yield Clash(f"{role}.url", f"{role}.allow_plain_http", hint, ", which is not encrypted")
    if model.engine != "vllm":
        return
    for name, value in (("url", model.url), ("model", model.model)):
        if value is None:
            yield Clash(f"{role}.engine", f"{role}.{name}", "A vllm needs its address and the name of its model.")
    if takes_part and not model.allow_audio_upload:
        hint = "Recordings would leave this machine. Allow it, or use specdec serve, which is sent log-mel features."
        yield Clash(f"{role}.engine", f"{role}.allow_audio_upload", hint, ", which takes the recordings")
    for name, hint in beyond_likeliest(config.decoding, config.acceptance) if takes_part else ():
        yield Clash(f"{role}.engine", name, hint, ", which returns the likeliest tokens only")


def beyond_likeliest(scoring: ScoringConfig, acceptance: AcceptanceConfig) -> Iterator[tuple[str, str]]:
    """Each setting for which a vLLM server's few likeliest tokens do not suffice, and what to do about it."""
    for name, off in {"temperature": 0, **NOTHING_DONE}.items():
        if getattr(scoring, name) not in (None, off):
            yield f"decoding.{name}", f"It takes whole distributions: set it to {off:g}, or use specdec serve."
    if acceptance.rule not in (None, *VLLM_RULES) and not scoring.sampling:
        yield "acceptance.rule", "Use greedy or class, or specdec serve."


def _decoding(config: Config) -> Iterator[Clash]:
    decoding, gate, rule, audio = config.decoding, config.gate, config.acceptance.rule, config.audio
    if decoding.mode == "lossless" and rule in LOSSY_RULES:
        hint = "Lossless allows greedy and sampling; for this rule use mode hybrid."
        yield Clash("decoding.mode", "acceptance.rule", hint)
    if decoding.mode in ("hybrid", "lossless") and rule == ("greedy" if decoding.sampling else "sampling"):
        hint = "Greedy goes with temperature 0, sampling with a higher one; null leaves the rule to the temperature."
        yield Clash("acceptance.rule", "decoding.temperature", hint)
    for name, off in (("top_p", (None, 1.0)), ("top_k", (None,))):
        if not decoding.sampling and getattr(decoding, name) not in off:
            hint = f"Greedy decoding ignores {name}: set a temperature above 0, or leave {name} out."
            yield Clash(f"decoding.{name}", "decoding.temperature", hint)
    if decoding.mode == "hybrid":
        low, high = _BOUNDS.get(gate.name, (-math.inf, math.inf))
        for name, value in (("threshold", gate.threshold), ("wake", gate.wake)):
            if value is not None and not low <= value <= high:
                default = DEFAULT_THRESHOLDS.get(gate.name, "the gate file's")
                hint = f"It must be from {low:g} to {high:g}; the default is {default}."
                yield Clash(f"gate.{name}", "gate.name", hint)
        if gate.name == "learned" and gate.file is None:
            hint = "Set gate.name to a file of specdec tune, or gate.file to package:mini/gate.json (mini pair)."
            yield Clash("gate.name", "gate.file", hint, ", which needs weights")
    if (decoding.min_new_tokens or 0) > decoding.max_new_tokens:
        yield Clash("decoding.min_new_tokens", "decoding.max_new_tokens", "The minimum may not exceed the maximum.")
    if audio.end_s is not None and audio.end_s <= (audio.start_s or 0.0):
        yield Clash("audio.end_s", "audio.start_s", "The end comes after the start.")


def _ignored(config: Config) -> Iterator[Clash]:
    """What has no effect; the model that a mode does not use may be named, so that one line serves for every mode."""
    cloud, decoding, gate, mode = config.cloud, config.decoding, config.gate, config.decoding.mode
    unused: list[str] = []
    if mode in ("edge", "cloud"):
        unused += [setting.name for section in ("gate", "acceptance") for setting in settings_of(section)]
        unused += ["decoding.cloud_prefill", "decoding.draft_ahead", "decoding.run_on", "decoding.degrade"]
        unused += ["decoding.defer"] * decoding.defer + ["decoding.edge_failed"] * (mode == "cloud")
    elif mode == "lossless":
        unused += ["gate.threshold", "gate.wake", "gate.file", "gate.stop_drafting"]
        unused += ["gate.name"] * (gate.name != "always")
        if decoding.sampling and decoding.defer:
            hint = "Lossless defers greedy drafts only: leave one of the two out."
            yield Clash("decoding.defer", "decoding.temperature", hint)
    else:
        if gate.name in ("always", "never"):
            yield Clash("gate.threshold", "gate.name", "That gate has no threshold.")
        if gate.name != "learned":
            yield Clash("gate.file", "gate.name", "Only the gate learned has weights.")
        if gate.stop_drafting and gate.name not in TOKEN_GATES:
            hint = f"Drafting stops only for a gate that judges tokens: {', '.join(sorted(TOKEN_GATES))}."
            yield Clash("gate.stop_drafting", "gate.name", hint)
        if not decoding.defer:
            yield Clash("gate.wake", "decoding.defer", "It counts only for a draft of the whole caption: add --defer.")
    hint = f"Mode {mode} ignores it: leave it out, or use mode hybrid. To compare modes, use specdec compare."
    yield from (Clash(name, "decoding.mode", hint) for name in unused)
    if decoding.defers:
        hint = "A deferred draft is not cut into blocks: add --no-defer, or leave it out."
        yield from (Clash(name, "decoding.defer", hint) for name in ("decoding.k", "gate.stop_drafting"))
    if config.prompt.text is not None:
        yield Clash("prompt.style", "prompt.text", "Give a style or a text of your own, not both.")
    if cloud is not None:
        served = cloud.url is not None
        hint = "The server decides how its model is loaded." if served else "It counts only for a cloud at an address."
        yield from (Clash(f"cloud.{name}", "cloud.url", hint) for name in (_OF_LOADING if served else _OF_A_LINK))
