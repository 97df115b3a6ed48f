"""Values that contradict each other. Each problem names both and where they came from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from specdec_cli.config.layers import Given, Rank
from specdec_cli.config.locate import is_loopback
from specdec_cli.config.problems import Problem, show
from specdec_cli.config.schema import AcceptanceConfig, Config, ScoringConfig
from specdec_cli.config.settings import settings_of
from specdec_cli.types import DEFAULT_THRESHOLDS, LOSSY_RULES, NOTHING_DONE, TOKEN_GATES, VLLM_HIGHEST_RANK, VLLM_RULES

_LINK_OPTIONS: Final = ("token_env", "timeout_s", "retry_s", "ca_file", "allow_plain_http")
_LOADING_OPTIONS: Final = ("device", "dtype", "device_map", "attention", "quantization", "encoder_dtype", "graphs")
_WAY_OUT: Final = "leave it out, or use mode hybrid. To compare modes with one set of options, use specdec compare."
_BOUNDS: Final = {
    "entropy": (0.0, math.inf, "at least 0 nats"),
    "class-entropy": (0.0, math.inf, "at least 0 nats"),
    "margin": (0.0, 1.0, "from 0 to 1"),
    "logprob": (-math.inf, 0.0, "at most 0 nats"),
    "learned": (0.0, 1.0, "a probability, from 0 to 1"),
    "random": (0.0, 1.0, "a share of the blocks, from 0 to 1"),
}


class Clash(NamedTuple):
    """Two settings that exclude each other; `why` tells what the first requires."""

    first: str
    second: str
    hint: str
    why: str = ""


def contradictions(config: Config, given: Mapping[str, Given]) -> list[Problem]:
    """Everything in `config` that contradicts something else in it.

    Args:
        config: the merged settings.
        given: dotted name -> value and origin; `cloud` when there is none.
    """

    def say(name: str) -> str:
        value = given[name].value
        plain = isinstance(value, str) and value.isprintable() and 0 < len(value) <= 40
        return f"{name} is {value if plain else show(value)} ({given[name].place})"

    clashes = [*_cloud(config), *_links(config), *_decoding(config), *_gate(config), *_others(config)]
    # To ignore a setting is a surprise where the command line gives it; a file may serve for every mode.
    clashes += [clash for clash in _ignored(config) if clash.first in given and given[clash.first].rank is Rank.FLAG]
    return [Problem(f"{say(c.first)}{c.why}, but {say(c.second)}.", c.hint) for c in clashes]


def _cloud(config: Config) -> Iterator[Clash]:
    cloud = config.cloud
    if cloud is None:
        if config.decoding.mode != "edge":
            yield Clash(
                "decoding.mode", "cloud", "Name one in cloud.model, or use mode edge.", ", which needs that model"
            )
        return
    if config.edge is None and config.decoding.mode != "cloud":
        yield Clash("decoding.mode", "edge", "Name one in edge.model, or use mode cloud.", ", which needs that model")
    if cloud.url is not None and cloud.model is not None and cloud.engine != "vllm":
        hint = "A cloud is loaded here or reached at an address: leave one of them out."
        yield Clash("cloud.url", "cloud.model", hint)


def _links(config: Config) -> Iterator[Clash]:
    """What is wrong with the addresses of servers, and with what a vLLM is to do."""
    mode = config.decoding.mode
    for role, model, takes_part in (("edge", config.edge, mode != "cloud"), ("cloud", config.cloud, mode != "edge")):
        if model is None:
            continue
        plain = model.url is not None and model.url.startswith("http://") and not is_loopback(model.url)
        if plain and not model.allow_plain_http:
            hint = f"Use https://, or set {role}.allow_plain_http: true for a link that is protected in another way."
            yield Clash(f"{role}.url", f"{role}.allow_plain_http", hint, ", which is not encrypted")
        if model.engine != "vllm":
            if role == "edge" and model.url is not None:
                yield Clash("edge.url", "edge.engine", "An edge at an address is a vllm: set edge.engine to vllm.")
            continue
        if model.url is None:
            yield Clash(f"{role}.engine", f"{role}.url", "Name the address of the vllm server.")
        if model.model is None:
            yield Clash(f"{role}.engine", f"{role}.model", "Name the model as the vllm server does.")
        if takes_part and not model.allow_audio_upload:
            hint = (
                "Recordings would leave this machine. Allow it, or use specdec serve, which is sent log-mel features."
            )
            yield Clash(f"{role}.engine", f"{role}.allow_audio_upload", hint, ", which takes the recordings")
        for name, hint in beyond_likeliest(config.decoding, config.acceptance) if takes_part else ():
            yield Clash(f"{role}.engine", name, hint, ", which returns the likeliest tokens only")
    served = config.edge is not None and config.edge.url is not None
    if served and mode == "hybrid" and config.gate.name == "random":
        yield Clash("gate.name", "edge.url", "The gate random needs an edge that is loaded here.")
    if served and mode != "edge" and config.cloud and config.cloud.engine != "vllm":
        yield Clash("edge.engine", "cloud.engine", "In front of a vllm edge the cloud is a vllm, too.")


def beyond_likeliest(scoring: ScoringConfig, acceptance: AcceptanceConfig) -> Iterator[tuple[str, str]]:
    """Each setting for which a vLLM server's few likeliest tokens do not suffice, and what to do about it."""
    for name, off in {"temperature": 0, **NOTHING_DONE}.items():
        if getattr(scoring, name) not in (None, off):
            yield f"decoding.{name}", f"It takes whole distributions: set it to {off:g}, or use specdec serve."
    if acceptance.rule not in (None, *VLLM_RULES) and not scoring.sampling:
        yield "acceptance.rule", "Use greedy, rank or class, or specdec serve."
    if acceptance.rule == "rank" and acceptance.rank > VLLM_HIGHEST_RANK:
        yield "acceptance.rank", f"Use a rank up to {VLLM_HIGHEST_RANK}."


def _decoding(config: Config) -> Iterator[Clash]:
    decoding, rule = config.decoding, config.acceptance.rule
    both_models = decoding.mode in ("hybrid", "lossless")
    if decoding.mode == "lossless" and rule in LOSSY_RULES:
        hint = "Lossless allows greedy and sampling; for this rule use mode hybrid."
        yield Clash("decoding.mode", "acceptance.rule", hint)
    if both_models and rule == "sampling" and not decoding.sampling:
        hint = "Set a temperature above 0, or leave the rule to the temperature (null)."
        yield Clash("acceptance.rule", "decoding.temperature", hint)
    if both_models and rule == "greedy" and decoding.sampling:
        hint = "The text would follow neither model: use the rule sampling, or temperature 0."
        yield Clash("acceptance.rule", "decoding.temperature", hint)
    if (decoding.min_new_tokens or 0) > decoding.max_new_tokens:
        yield Clash("decoding.min_new_tokens", "decoding.max_new_tokens", "The minimum may not exceed the maximum.")
    for name, off in (("top_p", (None, 1.0)), ("top_k", (None,))):
        if not decoding.sampling and getattr(decoding, name) not in off:
            hint = f"Greedy decoding ignores {name}: set a temperature above 0, or leave {name} out."
            yield Clash(f"decoding.{name}", "decoding.temperature", hint)


def _gate(config: Config) -> Iterator[Clash]:
    gate = config.gate
    low, high, bounds = _BOUNDS.get(gate.name, (-math.inf, math.inf, ""))
    if gate.threshold is not None and not low <= gate.threshold <= high:
        default = DEFAULT_THRESHOLDS.get(gate.name, "the gate file's")
        yield Clash("gate.threshold", "gate.name", f"Its threshold must be {bounds}; the default is {default}.")
    if gate.wake is not None and not low <= gate.wake <= high:
        yield Clash("gate.wake", "gate.name", f"Its threshold must be {bounds}.")
    if gate.name == "learned" and gate.file is None and config.decoding.mode == "hybrid":
        hint = "Set gate.name to a file of specdec tune, or gate.file to package:mini/gate.json (mini pair)."
        yield Clash("gate.name", "gate.file", hint, ", which needs weights")


def _others(config: Config) -> Iterator[Clash]:
    audio, prompt = config.audio, config.prompt
    if audio.end_s is not None and audio.end_s <= (audio.start_s or 0.0):
        yield Clash("audio.end_s", "audio.start_s", "The end comes after the start.")
    for section, model in (("edge", config.edge), ("cloud", config.cloud)):
        if model is None or model.url is not None:
            continue
        if model.device_map is not None and model.device != "auto":
            hint = "A device map chooses the devices: leave device at auto, or leave the map out."
            yield Clash(f"{section}.device_map", f"{section}.device", hint)
        if prompt.text is not None and model.is_mini and not prompt.force:
            hint = (
                "These models were trained on the instructions of prompt.style alone, and write broken text for "
                "another. Use other models, or set prompt.force to true."
            )
            yield Clash("prompt.text", f"{section}.model", hint)
            return


def _ignored(config: Config) -> Iterator[Clash]:
    """What has no effect; the model that a mode does not use may be named, so that one line serves for every mode."""
    cloud, decoding, gate, mode = config.cloud, config.decoding, config.gate, config.decoding.mode
    if cloud is not None:
        hint = "The server decides how its model is loaded: leave it out."
        if cloud.url is None:
            hint = "It counts only for a cloud at an address."
        for name in _LINK_OPTIONS if cloud.url is None else _LOADING_OPTIONS:
            yield Clash(f"cloud.{name}", "cloud.url", hint)
    unused: list[str] = []
    if mode in ("edge", "cloud"):
        unused += [setting.name for section in ("gate", "acceptance") for setting in settings_of(section)]
        unused += ["decoding.cloud_prefill", "decoding.draft_ahead", "decoding.run_on", "decoding.degrade"]
        unused += ["decoding.defer"] * decoding.defer
    if mode == "cloud":
        unused.append("decoding.edge_failed")
    if mode == "lossless":
        unused += ["gate.threshold", "gate.wake", "gate.file", "gate.stop_drafting"]
        unused += ["gate.name"] * (gate.name != "always")
    for name in unused:
        yield Clash(name, "decoding.mode", f"Mode {mode} ignores it: {_WAY_OUT}")
    if gate.name in ("always", "never"):
        yield Clash("gate.threshold", "gate.name", "That gate has no threshold.")
    if mode == "hybrid" and not decoding.defer:
        yield Clash("gate.wake", "decoding.defer", "It counts only for a draft of the whole caption: add --defer.")
    if decoding.defers:
        hint = "A deferred draft is not cut into blocks: add --no-defer, or leave it out."
        yield from (Clash(name, "decoding.defer", hint) for name in ("decoding.k", "gate.stop_drafting"))
    if gate.name != "learned":
        yield Clash("gate.file", "gate.name", "Only the gate learned has weights.")
    if gate.stop_drafting and gate.name not in TOKEN_GATES:
        hint = f"Drafting stops only for a gate that judges tokens: {', '.join(sorted(TOKEN_GATES))}."
        yield Clash("gate.stop_drafting", "gate.name", hint)
    if mode == "lossless" and decoding.sampling and decoding.defer:
        hint = "Lossless defers greedy drafts only: leave one of the two out."
        yield Clash("decoding.defer", "decoding.temperature", hint)
    if config.prompt.text is not None:
        yield Clash("prompt.style", "prompt.text", "Give a style or a text of your own, not both.")
