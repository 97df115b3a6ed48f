"""Values that exclude each other. Each error names both and their origins."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from specdec_cli.config.decoding_schema import AcceptanceRules, GateConfig, ScoringConfig
from specdec_cli.config.layers import Given
from specdec_cli.config.locate import is_loopback
from specdec_cli.config.model_schema import CloudConfig, EdgeConfig
from specdec_cli.config.schema import Config
from specdec_cli.errors import ConfigError
from specdec_cli.text import show, show_name
from specdec_cli.types import LOSSY_RULES, NOTHING_DONE, TOKEN_GATES, VLLM_RULES, Decider

_OF_BOTH_MODELS: Final = (
    *(f"gate.{name}" for name in GateConfig.model_fields),
    *(f"decoding.{name}" for name in ("cloud_prefill", "acceptance", "fallback")),
)
_BOUNDS: Final = {"entropy": (0, math.inf), "class-entropy": (0, math.inf), "logprob": (-math.inf, 0)}
"""Gate -> range of its thresholds, nats; those of the other gates are from 0 to 1."""

_NO_EDGE: Final = (
    "Name one in edge.model, or use mode cloud. A configuration file replaces the shipped one: to keep its models and "
    "settings, begin your file with what specdec config show --yaml prints."
)
_ONE: Final = "Leave one of them out, or change it."
_FITS: Final = "Greedy goes with temperature 0; sampling, top_p and top_k go with a higher one."

Clash = tuple[bool, str, str, str]
"""Whether two settings exclude each other, their names, and a hint."""


def contradictions(config: Config, given: Mapping[str, Given]) -> Iterator[ConfigError]:
    """All pairs of values in `config` that exclude each other; `given` has the origins by dotted name."""

    def described(name: str) -> str:
        value = given[name].value
        return f"{name} is {show_name(value) if isinstance(value, str) else show(value)} ({given[name].origin})"

    # A file may serve for every mode, but an option that has no effect is refused.
    ignored = (clash for clash in _ignored(config) if given[clash[1]].chosen)
    for clashes, first, second, hint in (*ignored, *_models(config), *_decoding(config)):
        if clashes:
            yield ConfigError(f"{described(first)}, but {described(second)}.", hint=hint)


def _models(config: Config) -> Iterator[Clash]:
    mode, edge, cloud = config.decoding.mode, config.edge, config.cloud
    yield mode != "cloud" and edge is None, "decoding.mode", "edge", _NO_EDGE
    yield mode != "edge" and cloud is None, "decoding.mode", "cloud", "Name one in cloud.model, or use mode edge."
    if edge is not None:
        remote = edge.url is not None
        hint = "Only a vLLM server can be a remote edge: name its model in edge.served_model."
        yield remote and not edge.is_vllm, "edge.model", "edge.served_model", hint
        mixed = mode in ("hybrid", "lossless") and cloud is not None and not cloud.is_vllm
        hint = "An edge at a vLLM server needs a cloud at one: name its model in cloud.served_model."
        yield remote and mixed, "edge.model", "cloud.model", hint
        yield remote and config.gate_in_force == "random", "gate.name", "edge.model", _ONE
    if cloud is not None:
        remote = cloud.url is not None
        hint = "A tokenizer is needed here: name the checkpoint that is served in cloud.processor, or an edge."
        yield remote and edge is None and not cloud.names_processor, "cloud.model", "cloud.processor", hint
    yield from _model("edge", edge, config) if edge is not None else ()
    yield from _model("cloud", cloud, config) if cloud is not None else ()


def _model(role: Decider, model: EdgeConfig | CloudConfig, config: Config) -> Iterator[Clash]:
    plain = model.url is not None and model.url.startswith("http://") and not is_loopback(model.url)
    hint = "Use https://, or set remote.allow_plain_http: true for a connection that is protected in another way."
    yield plain and not config.remote.allow_plain_http, f"{role}.model", "remote.allow_plain_http", hint
    own_text = config.prompt.style is None and not config.prompt.force
    hint = "The mini pair writes broken text for your own instruction. Use other models, or set prompt.force to true."
    yield own_text and model.url is None and model.is_mini, "prompt.instruction", f"{role}.model", hint
    hint = f"{role}.served_model names a model at a vLLM server: give its address in {role}.model, or leave it out."
    yield model.is_vllm and model.url is None, f"{role}.served_model", f"{role}.model", hint
    if model.is_vllm and config.decoding.mode in ("hybrid", "lossless", role):
        hint = "Recordings would leave this machine. Allow it, or use specdec serve, which is sent log-mel features."
        yield not config.remote.allow_audio_upload, f"{role}.served_model", "remote.allow_audio_upload", hint
        for name, hint in beyond_likeliest(config.decoding, config.decoding.rules):
            yield True, f"{role}.served_model", name, hint


def beyond_likeliest(scoring: ScoringConfig, acceptance: AcceptanceRules) -> Iterator[tuple[str, str]]:
    """Each setting that needs more than the few likeliest tokens that vLLM returns, and a hint."""
    for name, off in {"temperature": 0, **NOTHING_DONE}.items():
        if getattr(scoring, name) not in (None, off):
            yield f"decoding.{name}", f"It takes whole distributions: set it to {off:g}, or use specdec serve."
    if acceptance.rule not in (None, *VLLM_RULES) and not scoring.sampling:
        yield "decoding.acceptance", "Use greedy or class, or specdec serve."


def _decoding(config: Config) -> Iterator[Clash]:
    decoding, gate, rule, audio = config.decoding, config.gate, config.decoding.rules.rule, config.audio
    hint = "Lossless allows greedy and sampling; for this rule use mode hybrid."
    yield decoding.mode == "lossless" and rule in LOSSY_RULES, "decoding.mode", "decoding.acceptance", hint
    misfit = decoding.mode in ("hybrid", "lossless") and rule == ("greedy" if decoding.sampling else "sampling")
    yield misfit, "decoding.acceptance", "decoding.temperature", _FITS
    greedy = not decoding.sampling
    yield greedy and decoding.top_p not in (None, 1.0), "decoding.top_p", "decoding.temperature", _FITS
    yield greedy and decoding.top_k is not None, "decoding.top_k", "decoding.temperature", _FITS
    low, high = _BOUNDS.get(gate.name, (0, 1))
    threshold = gate.threshold if config.gate_in_force not in ("always", "never") else None
    beyond = threshold is not None and not low <= threshold <= high
    yield beyond, "gate.threshold", "gate.name", f"It must be from {low:g} to {high:g}."
    ends_first = audio.end_s is not None and audio.end_s <= (audio.start_s or 0.0)
    yield ends_first, "audio.end_s", "audio.start_s", "The end comes after the start."
    halved = (config.serve.tls_cert is None) != (config.serve.tls_key is None)
    yield halved, "serve.tls_cert", "serve.tls_key", "Give both PEM files, or neither."


def _ignored(config: Config) -> Iterator[Clash]:
    """Settings without effect. A model that the mode does not use may be named: one command line serves every mode."""
    decoding, gate, mode = config.decoding, config.gate, config.decoding.mode
    unused: tuple[str, ...] = ()
    if mode == "lossless":
        unused = ("gate.threshold", "gate.wake", "gate.stop_drafting")
        yield gate.name != "always", "gate.name", "decoding.mode", "To compare modes, use specdec compare."
    elif mode == "hybrid":
        yield gate.name in ("always", "never"), "gate.threshold", "gate.name", "That gate has no threshold."
        stops = gate.stop_drafting and gate.name not in TOKEN_GATES
        yield stops, "gate.stop_drafting", "gate.name", f"It goes with {', '.join(sorted(TOKEN_GATES))}."
    else:
        unused = _OF_BOTH_MODELS
    hint = f"Mode {mode} ignores it: leave it out, or use mode hybrid, with both models."
    yield from ((True, name, "decoding.mode", hint) for name in unused)
    hint = "A whole caption is not cut into blocks: set decoding.k to a number or auto, or leave it out."
    yield decoding.defers, "gate.stop_drafting", "decoding.k", hint
