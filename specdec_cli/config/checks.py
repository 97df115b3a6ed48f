"""Values that contradict each other. Each problem names both and where they came from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from specdec_cli.config.layers import Given, Rank
from specdec_cli.config.locate import is_loopback
from specdec_cli.config.problems import Problem, show
from specdec_cli.config.schema import Config
from specdec_cli.config.settings import SETTINGS
from specdec_cli.types import DEFAULT_THRESHOLDS, LOSSY_RULES, TOKEN_GATES, VLLM_HIGHEST_RANK, VLLM_RULES

_UNUSED_SECTIONS: Final = {"edge": ("gate", "acceptance"), "cloud": ("gate", "acceptance")}
"""The model that a mode does not use may be named all the same, so that one line serves for every mode."""
_RULE_OPTIONS: Final = {
    "acceptance.rank": "rank",
    "acceptance.prob": "prob",
    "acceptance.typical_epsilon": "typical",
    "acceptance.typical_delta": "typical",
}
_LINK_OPTIONS: Final = tuple(
    f"cloud.{name}" for name in ("token_env", "timeout_s", "retry_s", "ca_file", "allow_plain_http")
)
_WHOLE_DISTRIBUTIONS: Final = {
    "decoding.temperature": 0.0,
    "decoding.repetition_penalty": 1.0,
    "decoding.no_repeat_ngram": 0,
    "decoding.min_new_tokens": 0,
}
_LOADING_OPTIONS: Final = tuple(
    f"cloud.{name}" for name in ("revision", "device", "dtype", "device_map", "attention", "quantization", "compile")
)
_BOUNDS: Final = {
    "entropy": (0.0, math.inf, "at least 0 nats"),
    "margin": (0.0, 1.0, "from 0 to 1"),
    "logprob": (-math.inf, 0.0, "at most 0 nats"),
    "learned": (0.0, 1.0, "a probability, from 0 to 1"),
    "random": (0.0, 1.0, "a share of the blocks, from 0 to 1"),
}


@dataclass(frozen=True, slots=True)
class _Checker:
    """The merged settings and their origins."""

    config: Config
    given: Mapping[str, Given]

    def say(self, name: str) -> str:
        """A setting with its value and origin: "decoding.mode is lossless (flag --mode)"."""
        given = self.given[name]
        return f"{name} is {_bare(given.value)} ({given.place})"

    def by_flag(self, name: str) -> bool:
        """Whether the user gave it on the command line, so that ignoring it would be a surprise."""
        return name in self.given and self.given[name].rank is Rank.FLAG

    def clash(self, first: str, why: str, second: str, hint: str) -> Problem:
        """Two settings that exclude each other."""
        return Problem(f"{self.say(first)}{why}{self.say(second)}.", hint)

    def cloud_needed(self) -> Iterator[Problem]:
        if self.config.decoding.mode != "edge" and self.config.cloud is None:
            hint = "Name one in cloud.model, or use mode edge."
            yield self.clash("decoding.mode", ", which needs a cloud model, but ", "cloud", hint)

    def cloud_place(self) -> Iterator[Problem]:
        cloud = self.config.cloud
        if cloud is None:
            return
        if cloud.url is None:
            for name in filter(self.by_flag, _LINK_OPTIONS):
                yield self.clash(name, ", but ", "cloud.url", "It counts only for a cloud at an address.")
            return
        if cloud.model is not None and cloud.engine != "vllm":
            hint = "A cloud is loaded here or reached at an address: leave one of them out."
            yield self.clash("cloud.url", ", but ", "cloud.model", hint)
        for name in filter(self.by_flag, _LOADING_OPTIONS):
            yield self.clash(name, ", but ", "cloud.url", "The server decides how its model is loaded: leave it out.")
        if cloud.url.startswith("http://") and not (is_loopback(cloud.url) or cloud.allow_plain_http):
            hint = "Use https://, or set cloud.allow_plain_http: true for a link that is protected in another way."
            yield self.clash("cloud.url", ", which is not encrypted, but ", "cloud.allow_plain_http", hint)

    def vllm(self) -> Iterator[Problem]:
        cloud, mode = self.config.cloud, self.config.decoding.mode
        if cloud is None:
            return
        if cloud.engine != "vllm":
            if self.by_flag("cloud.allow_audio_upload"):
                hint = "Only a vllm is sent recordings: set cloud.engine to vllm, or leave it out."
                yield self.clash("cloud.allow_audio_upload", ", but ", "cloud.engine", hint)
            return
        if cloud.url is None:
            yield self.clash("cloud.engine", ", but ", "cloud.url", "Name the address of the vllm server.")
        if cloud.model is None:
            yield self.clash("cloud.engine", ", but ", "cloud.model", "Name the model as the vllm server does.")
        if mode == "edge":
            return
        if not cloud.allow_audio_upload:
            hint = (
                "Recordings would leave this machine. Allow it, or use specdec serve, which is sent log-mel features."
            )
            yield self.clash("cloud.engine", ", which takes the recordings, but ", "cloud.allow_audio_upload", hint)
        whole = ", which returns the likeliest tokens only, but "
        for name, off in _WHOLE_DISTRIBUTIONS.items():
            if self.given[name].value not in (None, off):
                hint = f"It takes whole distributions: set it to {off:g}, or use specdec serve."
                yield self.clash("cloud.engine", whole, name, hint)
        if self.config.acceptance.rule not in (None, *VLLM_RULES) and self.config.decoding.temperature == 0:
            yield self.clash("cloud.engine", whole, "acceptance.rule", "Use greedy or rank, or specdec serve.")
        if self.config.acceptance.rule == "rank" and self.config.acceptance.rank > VLLM_HIGHEST_RANK:
            yield self.clash("cloud.engine", whole, "acceptance.rank", f"Use a rank up to {VLLM_HIGHEST_RANK}.")

    def rules(self) -> Iterator[Problem]:
        mode, rule = self.config.decoding.mode, self.config.acceptance.rule
        if mode in ("edge", "cloud") or rule is None:
            return
        if mode == "lossless" and rule in LOSSY_RULES:
            hint = "Lossless allows greedy and sampling; for this rule use mode hybrid."
            yield self.clash("decoding.mode", ", but ", "acceptance.rule", hint)
        sampled = self.config.decoding.temperature > 0
        if rule == "sampling" and not sampled:
            hint = "Set a temperature above 0, or leave the rule to the temperature (null)."
            yield self.clash("acceptance.rule", ", but ", "decoding.temperature", hint)
        if rule == "greedy" and sampled:
            hint = "The text would follow neither model: use the rule sampling, or temperature 0."
            yield self.clash("acceptance.rule", ", but ", "decoding.temperature", hint)

    def lengths(self) -> Iterator[Problem]:
        if (self.config.decoding.min_new_tokens or 0) > self.config.decoding.max_new_tokens:
            hint = "The minimum may not exceed the maximum."
            yield self.clash("decoding.min_new_tokens", ", but ", "decoding.max_new_tokens", hint)

    def sampling_options(self) -> Iterator[Problem]:
        decoding = self.config.decoding
        if decoding.temperature > 0:
            return
        for name, on in (("top_p", decoding.top_p not in (None, 1.0)), ("top_k", decoding.top_k is not None)):
            if on:
                hint = f"Greedy decoding ignores {name}: set a temperature above 0, or leave {name} out."
                yield self.clash(f"decoding.{name}", ", but ", "decoding.temperature", hint)

    def ignored_by_mode(self) -> Iterator[Problem]:
        mode = self.config.decoding.mode
        unused = [name for name in SETTINGS if name.split(".")[0] in _UNUSED_SECTIONS.get(mode, ())]
        if mode == "lossless":
            unused += ["gate.threshold", "gate.file", "gate.stop_drafting"]
            unused += ["gate.name"] * (self.config.gate.name != "always")
        if mode in ("edge", "cloud"):
            unused += ["decoding.cloud_prefill", "decoding.draft_ahead", "decoding.run_on"]
        if mode == "edge":
            unused.append("decoding.require_cloud")
        hint = f"Mode {mode} ignores it: leave it out, or use mode hybrid."
        for name in filter(self.by_flag, unused):
            yield self.clash(name, ", but ", "decoding.mode", hint)

    def ignored_by_choice(self) -> Iterator[Problem]:
        if self.config.decoding.mode in ("hybrid", "lossless"):
            for name, rule in _RULE_OPTIONS.items():
                if self.by_flag(name) and self.config.acceptance_rule != rule:
                    hint = f"It counts only with the rule {rule}."
                    yield self.clash(name, ", but ", "acceptance.rule", hint)
        if self.by_flag("gate.threshold") and self.config.gate.name in ("always", "never"):
            yield self.clash("gate.threshold", ", but ", "gate.name", "That gate has no threshold.")
        if self.config.decoding.loop_period == 0:
            for name in filter(self.by_flag, ("decoding.loop_repeats", "decoding.loop_top_k")):
                yield self.clash(name, ", but ", "decoding.loop_period", "Loop detection is off at period 0.")
        if self.by_flag("decoding.cost_ratio") and self.config.decoding.k != "auto":
            yield self.clash("decoding.cost_ratio", ", but ", "decoding.k", "It counts only with k auto.")
        if self.by_flag("prompt.style") and self.by_flag("prompt.text"):
            yield self.clash("prompt.style", ", but ", "prompt.text", "Give a style or a text of your own, not both.")

    def threshold_bounds(self) -> Iterator[Problem]:
        gate = self.config.gate
        if gate.threshold is None or gate.name not in _BOUNDS:
            return
        low, high, bounds = _BOUNDS[gate.name]
        if not low <= gate.threshold <= high:
            default = DEFAULT_THRESHOLDS.get(gate.name, "the gate file's")
            hint = f"Its threshold must be {bounds}; the default is {default}."
            yield self.clash("gate.threshold", ", but ", "gate.name", hint)

    def gate_weights(self) -> Iterator[Problem]:
        gate = self.config.gate
        if gate.name == "learned" and gate.file is None and self.config.decoding.mode == "hybrid":
            hint = "Set gate.name to a file of specdec tune, or gate.file to package:mini/gate.json (mini pair)."
            yield self.clash("gate.name", ", which needs weights, but ", "gate.file", hint)
        if gate.name != "learned" and self.by_flag("gate.file"):
            yield self.clash("gate.file", ", but ", "gate.name", "Only the gate learned has weights.")
        if gate.stop_drafting and gate.name not in TOKEN_GATES and self.by_flag("gate.stop_drafting"):
            hint = f"Drafting stops only for a gate that judges tokens: {', '.join(sorted(TOKEN_GATES))}."
            yield self.clash("gate.stop_drafting", ", but ", "gate.name", hint)

    def placement(self) -> Iterator[Problem]:
        cloud = self.config.cloud
        for section, model in (("edge", self.config.edge), ("cloud", None if cloud and cloud.url else cloud)):
            if model is None:
                continue
            if model.device_map is not None and model.device != "auto":
                hint = "A device map chooses the devices: leave device at auto, or leave the map out."
                yield self.clash(f"{section}.device_map", ", but ", f"{section}.device", hint)
            if model.attention == "flash_attention_2":
                hint = "flash_attention_2 needs cuda and bfloat16 or float16; sdpa works everywhere."
                if model.device in ("cpu", "mps"):
                    yield self.clash(f"{section}.attention", ", but ", f"{section}.device", hint)
                if model.dtype == "float32":
                    yield self.clash(f"{section}.attention", ", but ", f"{section}.dtype", hint)


def contradictions(config: Config, given: Mapping[str, Given]) -> list[Problem]:
    """Everything in `config` that contradicts something else in it.

    Args:
        config: the merged settings.
        given: dotted name -> value and origin; `cloud` when there is none.
    """
    checker = _Checker(config, given)
    found: list[Problem] = []
    for check in (
        checker.cloud_needed,
        checker.cloud_place,
        checker.vllm,
        checker.rules,
        checker.lengths,
        checker.sampling_options,
        checker.ignored_by_mode,
        checker.ignored_by_choice,
        checker.threshold_bounds,
        checker.gate_weights,
        checker.placement,
    ):
        found += check()
    return found


def _bare(value: object) -> str:
    return value if isinstance(value, str) and value.isprintable() and 0 < len(value) <= 40 else show(value)
