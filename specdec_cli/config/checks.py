"""Values that contradict each other. Each problem names both and where they came from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from specdec_cli.config.layers import Given, Rank
from specdec_cli.config.locate import is_loopback
from specdec_cli.config.problems import Problem, show
from specdec_cli.config.schema import AcceptanceConfig, CloudConfig, Config, ScoringConfig
from specdec_cli.config.settings import settings_of
from specdec_cli.types import DEFAULT_THRESHOLDS, LOSSY_RULES, NOTHING_DONE, TOKEN_GATES, VLLM_HIGHEST_RANK, VLLM_RULES

_RULE_OPTIONS: Final = {
    "rank": "rank",
    "prob": "prob",
    "typical_epsilon": "typical",
    "typical_delta": "typical",
    "cascade_alpha": "cascade",
}
_LINK_OPTIONS: Final = ("token_env", "timeout_s", "retry_s", "ca_file", "allow_plain_http")
_LOADING_OPTIONS: Final = (
    "revision",
    "device",
    "dtype",
    "device_map",
    "attention",
    "quantization",
    "encoder_dtype",
    "compile",
)
_BOUNDS: Final = {
    "entropy": (0.0, math.inf, "at least 0 nats"),
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

    clashes = [*_cloud(config), *_vllm(config), *_decoding(config), *_gate(config), *_placement(config)]
    if config.audio.end_s is not None and config.audio.end_s <= (config.audio.start_s or 0.0):
        clashes.append(Clash("audio.end_s", "audio.start_s", "The end comes after the start."))
    if config.audio.segment is not None and config.audio.segment_s is not None:
        clashes.append(Clash("audio.segment", "audio.segment_s", "They are two names of one thing: leave one out."))
    # To ignore a setting is a surprise where the command line gives it; a file may serve for every mode.
    clashes += [
        clash
        for clash in (*_ignored_by_cloud(config.cloud), *_ignored_by_mode(config), *_ignored_by_choice(config))
        if clash.first in given and given[clash.first].rank is Rank.FLAG
    ]
    return [Problem(f"{say(c.first)}{c.why}, but {say(c.second)}.", c.hint) for c in clashes]


def _cloud(config: Config) -> Iterator[Clash]:
    cloud = config.cloud
    if cloud is None:
        if config.decoding.mode != "edge":
            hint = "Name one in cloud.model, or use mode edge."
            yield Clash("decoding.mode", "cloud", hint, ", which needs a cloud model")
        return
    if cloud.url is not None and cloud.model is not None and cloud.engine != "vllm":
        hint = "A cloud is loaded here or reached at an address: leave one of them out."
        yield Clash("cloud.url", "cloud.model", hint)
    plain = cloud.url is not None and cloud.url.startswith("http://") and not is_loopback(cloud.url)
    if plain and not cloud.allow_plain_http:
        hint = "Use https://, or set cloud.allow_plain_http: true for a link that is protected in another way."
        yield Clash("cloud.url", "cloud.allow_plain_http", hint, ", which is not encrypted")


def _vllm(config: Config) -> Iterator[Clash]:
    cloud, decoding, acceptance = config.cloud, config.decoding, config.acceptance
    if cloud is None or cloud.engine != "vllm":
        return
    if cloud.url is None:
        yield Clash("cloud.engine", "cloud.url", "Name the address of the vllm server.")
    if cloud.model is None:
        yield Clash("cloud.engine", "cloud.model", "Name the model as the vllm server does.")
    if decoding.mode == "edge":
        return
    if not cloud.allow_audio_upload:
        hint = "Recordings would leave this machine. Allow it, or use specdec serve, which is sent log-mel features."
        yield Clash("cloud.engine", "cloud.allow_audio_upload", hint, ", which takes the recordings")
    for name, hint in beyond_likeliest(decoding, acceptance):
        yield Clash("cloud.engine", name, hint, ", which returns the likeliest tokens only")


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


def _placement(config: Config) -> Iterator[Clash]:
    cloud = config.cloud
    for section, model in (("edge", config.edge), ("cloud", None if cloud and cloud.url else cloud)):
        if model is None:
            continue
        if model.device_map is not None and model.device != "auto":
            hint = "A device map chooses the devices: leave device at auto, or leave the map out."
            yield Clash(f"{section}.device_map", f"{section}.device", hint)
        if model.attention == "flash_attention_2":
            hint = "flash_attention_2 needs cuda and bfloat16 or float16; sdpa works everywhere."
            if model.device in ("cpu", "mps"):
                yield Clash(f"{section}.attention", f"{section}.device", hint)
            if model.dtype == "float32":
                yield Clash(f"{section}.attention", f"{section}.dtype", hint)


def _ignored_by_cloud(cloud: CloudConfig | None) -> Iterator[Clash]:
    if cloud is None:
        return
    hint = "The server decides how its model is loaded: leave it out."
    if cloud.url is None:
        hint = "It counts only for a cloud at an address."
    for name in _LINK_OPTIONS if cloud.url is None else _LOADING_OPTIONS:
        yield Clash(f"cloud.{name}", "cloud.url", hint)
    if cloud.engine != "vllm":
        hint = "Only a vllm is sent recordings: set cloud.engine to vllm, or leave it out."
        yield Clash("cloud.allow_audio_upload", "cloud.engine", hint)


def _ignored_by_mode(config: Config) -> Iterator[Clash]:
    """What a mode ignores; the model that it does not use may be named, so that one line serves for every mode."""
    mode = config.decoding.mode
    unused: list[str] = []
    if mode in ("edge", "cloud"):
        unused += [setting.name for section in ("gate", "acceptance") for setting in settings_of(section)]
        unused += ["decoding.cloud_prefill", "decoding.draft_ahead", "decoding.run_on", "decoding.defer"]
    if mode == "lossless":
        unused += ["gate.threshold", "gate.wake", "gate.file", "gate.stop_drafting"]
        unused += ["decoding.defer"] * config.decoding.sampling
        unused += ["gate.name"] * (config.gate.name != "always")
    if mode == "edge":
        unused.append("decoding.require_cloud")
    for name in unused:
        yield Clash(name, "decoding.mode", f"Mode {mode} ignores it: leave it out, or use mode hybrid.")


def _ignored_by_choice(config: Config) -> Iterator[Clash]:
    decoding, gate = config.decoding, config.gate
    for name, rule in _RULE_OPTIONS.items():
        if decoding.mode in ("hybrid", "lossless") and config.acceptance_rule != rule:
            yield Clash(f"acceptance.{name}", "acceptance.rule", f"It counts only with the rule {rule}.")
    if gate.name in ("always", "never"):
        yield Clash("gate.threshold", "gate.name", "That gate has no threshold.")
        yield Clash("gate.wake", "gate.name", "That gate has no threshold.")
    if decoding.mode == "hybrid" and not decoding.defer:
        yield Clash("gate.wake", "decoding.defer", "It counts only for a draft of the whole caption: add --defer.")
    if config.decoding.defers:
        hint = "A deferred draft is not cut into blocks: leave one of the two out."
        yield from (Clash(name, "decoding.defer", hint) for name in ("decoding.k", "gate.stop_drafting"))
    if gate.name != "learned":
        yield Clash("gate.file", "gate.name", "Only the gate learned has weights.")
    if gate.stop_drafting and gate.name not in TOKEN_GATES:
        hint = f"Drafting stops only for a gate that judges tokens: {', '.join(sorted(TOKEN_GATES))}."
        yield Clash("gate.stop_drafting", "gate.name", hint)
    if decoding.loop_period == 0:
        for name in ("loop_repeats", "loop_top_k"):
            yield Clash(f"decoding.{name}", "decoding.loop_period", "Loop detection is off at period 0.")
    if decoding.k != "auto":
        yield Clash("decoding.cost_ratio", "decoding.k", "It counts only with k auto.")
    if config.prompt.text is not None:
        yield Clash("prompt.style", "prompt.text", "Give a style or a text of your own, not both.")
