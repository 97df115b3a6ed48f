"""The cases of every law: a pair, a clip and settings, each a pure function of its number."""

import random
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from functools import cache
from typing import Any, Final

from transformers import GenerationConfig

from specdec_cli.decoding.pair import Pair
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.int4 import PackedLinear, pack, packable
from tests.laws.cases import GATES, Case, fast, make_case, mixed
from tests.support.models import as_audio_lm, tiny_clip, tiny_module

CLOSED: Final = {"mode": "hybrid", "gate": "never", "threshold": None}
ASLEEP: Final = {"mode": "hybrid", "gate": "entropy", "threshold": 0.1, "wake": 1e9, "defer": True}
EDGE_WAYS: Final[tuple[Mapping[str, Any], ...]] = (CLOSED, ASLEEP, {"k": 1}, {"k": 8}, {"k": "auto"})
COSTS: Final = (0.02, 0.15, 0.5, 0.9, 3.0)
CLOUD_WAYS: Final[tuple[Mapping[str, Any], ...]] = (
    {"mode": "cloud"},
    {"mode": "hybrid", "gate": "always", "threshold": None},
    {"mode": "hybrid", "gate": "entropy", "threshold": 0.0, "wake": 0.0, "defer": True},
    {"defer": True},
    *({"k": "auto", "cost_ratio": cost} for cost in COSTS),
    {"k": "auto"},
    {"k": "auto", "mode": "cloud"},
    {"cloud_prefill": "early"},
    {"cloud_prefill": "overlap"},
    {"k": 1},
    {"k": 8},
)
GREEDY_RULES: Final = ("greedy", "rank", "prob", "typical", "class")
GATED_WAYS: Final = len(GATES) * len(GREEDY_RULES) * 2
GUESS_MODES: Final = ("edge", "cloud", "hybrid", "lossless")
MOST_GUESSED: Final = 64
CLOSING: Final[Mapping[str, Any]] = {"closing": "on", "max_new_tokens": 24, "min_new_tokens": 0, "loop_period": 0}


def edge_case(number: int) -> Case:
    """In edge mode the loop breaks out of repetitions, which `generate()` cannot; that has tests of its own."""
    way = ({}, fast(number) | (CLOSED if number % 2 else {}), EDGE_WAYS[number // 3 % len(EDGE_WAYS)])[number % 3]
    return make_case(number, **{"mode": "edge", "loop_period": 0, **way})


def sampled_edge_case(number: int) -> Case:
    """The edge alone, which draws its tokens."""
    case = make_case(
        number, mode="edge", loop_period=0, temperature=(0.5, 1.0, 1.4)[number % 3], top_k=(None, 5, 40)[number % 3],
        top_p=(None, 0.9)[number % 2],
    )  # fmt: skip
    # A draw consumes one random number per vocabulary row, so both sides must have equally many.
    return replace(case, pair=Pair(case.edge, case.pair.cloud, case.edge.processor.logits_size))


@cache
def packed_edge(seed: int, eos: tuple[int, ...]) -> AudioLM:
    """An edge whose decoder and output layer have weights of four bits."""
    module = tiny_module(700 + seed, hidden=128, vocab_size=(320, 384)[seed % 2], layers=1 + seed % 2, scale=0.15)
    for name, linear in packable(module).items():
        module.set_submodule(name, PackedLinear(linear))
        part = module.get_submodule(name)
        part.weight, part.scales = pack(linear.weight.data)
    model = as_audio_lm(module, f"packed-{seed}")
    model.processor.eos_ids = eos
    return model


def packed_case(number: int) -> Case:
    """A case of the edge alone, or one that never escalates, with weights of four bits."""
    case = edge_case(number)
    edge = packed_edge(number % 3, tuple(case.edge.processor.eos_ids))
    clip = edge.processor.prompt(tiny_clip(number % 8, 0.3 + 0.25 * (number % 4)), "say how")
    return replace(case, pair=Pair.of(edge, case.pair.cloud), edge_prompt=clip)


def cloud_way(number: int) -> Mapping[str, Any]:
    """What the case of a number is run with: as drawn, everything for speed at once, or one of `CLOUD_WAYS`."""
    return ({}, fast(number), CLOUD_WAYS[number // 3 % len(CLOUD_WAYS)])[number % 3]


def lossless_case(number: int) -> Case:
    """In mode hybrid the loop breaks out of repetitions, which `generate()` cannot; that has tests of its own."""
    given = {"mode": "lossless", **cloud_way(number)}
    return make_case(number, **given, **({"loop_period": 0} if given["mode"] == "hybrid" else {}))


def cloud_case(number: int) -> Case:
    """The cloud alone."""
    return make_case(number, mode="cloud")


def gated_case(number: int) -> Case:
    """A hybrid case; the number decides gate, rule, k and whether drafts stop."""
    at = number % GATED_WAYS
    gate, rule = GATES[at % len(GATES)], GREEDY_RULES[at // len(GATES) % len(GREEDY_RULES)]
    stop = at // (len(GATES) * len(GREEDY_RULES)) == 1
    ways = {"gate": gate, "acceptance": rule, "loop_period": 0, "k": 1 + number % 8, "stop_drafting": stop}
    return make_case(number, mode="hybrid", **ways)


def sampled_hybrid_case(number: int) -> Case:
    """Every rule of acceptance at a temperature."""
    rule = ("sampling", "rank", "prob", "typical", "class")[number // 2 % 5]
    temperature, top_k, top_p = (0.7, 1.0, 1.3)[number % 3], (None, 12)[number % 2], (None, 0.95)[number // 3 % 2]
    drawn = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    return make_case(number, mode="hybrid", acceptance=rule, loop_period=0, **drawn)


def auto_case(number: int) -> Case:
    """Blocks as long as pays."""
    rule, cost = ("greedy", "rank", "sampling")[number % 3], (0.02, 0.15, 0.5)[number // 3 % 3]
    gate = GATES[number % len(GATES)]
    drawn = {"acceptance": rule, "gate": gate, "temperature": 0.8 if rule == "sampling" else 0.0}
    return make_case(number, mode="hybrid", k="auto", cost_ratio=cost, loop_period=0, max_new_tokens=18, **drawn)


def deferred_case(number: int) -> Case:
    """All of the caption is drafted before the gate decides, by another threshold until the cloud has been called."""
    gate, rule = GATES[number % len(GATES)], GREEDY_RULES[number // len(GATES) % len(GREEDY_RULES)]
    drawn = {
        "gate": gate,
        "acceptance": rule,
        "stop_drafting": number % 2 == 0,
        "loop_period": (0, 8)[number % 3 == 0],
        "stop_strings": ((), (), tuple("aeiou"))[number % 3],
        "cloud_prefill": ("lazy", "lazy", "overlap")[number // 2 % 3],
    }
    return make_case(number, mode="hybrid", defer=True, **drawn)


def mixed_case(number: int) -> Case:
    """Any mode, rule, stop rule and length, with the cloud beside the edge or not, inclined to loop or not."""
    return make_case(number, **mixed(random.Random(f"mixed {number}")))


def sampled_case(number: int) -> Case:
    """A case that draws its tokens: lossless, or of the cloud alone, whose figures are recorded."""
    temperature, top_k, top_p = (0.5, 1.0, 1.4)[number % 3], (None, 5, 40)[number % 3], (None, 0.9)[number % 2]
    mode = "cloud" if number % 4 == 3 else "lossless"
    return make_case(number, mode=mode, temperature=temperature, top_k=top_k, top_p=top_p)


def guess_case(number: int, **fixed: Any) -> Case:
    """A clip of any mode, in which a model may write on alone."""
    mode = GUESS_MODES[number // 4 % 4]
    most, temperature = (MOST_GUESSED, 1, 3)[number % 3], (0.0, 0.0, 0.8)[number % 3]
    return make_case(number, mode=mode, loop_period=0, guess_tokens=most, temperature=temperature, **fixed)


def ends_case(number: int, gate: str | None = None) -> Case:
    """A pair in mode hybrid, each with many end ids of its own, few of them shared."""
    rng = random.Random(f"ends {number}")
    given: dict[str, Any] = {"mode": "hybrid", "min_new_tokens": rng.choice((0, 3, 5, 8)), "max_new_tokens": 12}
    given["defer"] = rng.random() < 0.3
    if gate is not None:
        given |= {"gate": gate, "threshold": None, "loop_period": 0}
    case = make_case(number, **given)

    def ending(model: AudioLM) -> AudioLM:
        model = copy(model)
        model.processor = copy(model.processor)
        model.processor.eos_ids = tuple(sorted({256, *rng.sample(range(256), 40)}))
        return model

    return replace(case, pair=Pair.of(ending(case.edge), ending(case.cloud)))


OPEN: Final = ("repetition_penalty", "no_repeat_ngram", "min_new_tokens")
SUGGESTED: Final[tuple[Mapping[str, Any], ...]] = (
    {"repetition_penalty": 1.5},
    {"repetition_penalty": 0.7},
    {"no_repeat_ngram_size": 1},
    {"min_new_tokens": 9},
    {"suppress_tokens": list(range(0, 256, 2))},
    {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2, "min_new_tokens": 6, "suppress_tokens": [5, 300, 400]},
)


@cache
def suggesting(at: int) -> AudioLM:
    """A model whose checkpoint's generation_config.json suggests settings; the weights are always the same."""
    module = tiny_module(31)
    ends = [module.generation_config.eos_token_id, *range(3, 256, 29)]
    module.generation_config = GenerationConfig(eos_token_id=ends, pad_token_id=257, **SUGGESTED[at])
    return as_audio_lm(module, f"suggesting-{at}")


def suggested_case(number: int, **fixed: Any) -> Case:
    """A pair whose checkpoints suggest settings, each its own; the case gives some of them, and leaves others open."""
    rng = random.Random(f"suggested {number}")
    edge, cloud = (suggesting(rng.randrange(len(SUGGESTED))) for _ in range(2))
    left_open = {name: None for name in OPEN if rng.random() < 0.8}
    case = make_case(number, loop_period=0, max_new_tokens=12, **left_open, **fixed)
    prompts = (model.processor.prompt(case.edge_prompt.waveform, "say how") for model in (edge, cloud))
    return Case(number, Pair.of(edge, cloud), *prompts, case.given)


def closing(case: Case, **more: Any) -> Case:
    """The same case with the rule that ends a caption where it stops describing, on tokens that read as words."""
    given = {**case.given, **CLOSING, "language": random.Random(case.number).choice(("zh", "en")), **more}
    return make_case(case.number, **given)


def closing_mixed_case(number: int) -> Case:
    """Everything at once; half of the gates keep each draft, for only then a fault of the text is the reason."""
    given = mixed(rng := random.Random(f"closing {number}"))
    if rng.random() < 0.5:
        given["gate"] = "never"
    return closing(make_case(number, **given), sentences=None, stop_strings=())
