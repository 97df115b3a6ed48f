"""Loaded tiny models of every family, clips for them, and their scores without a cache."""

import random
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from specdec_cli.decoding.pair import Pair
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.processor import Prompt
from tests.laws.cases import INSTRUCTIONS, Case, drawn_settings
from tests.support.checkpoints import load
from tests.support.kinds import KINDS, write
from tests.support.models import tiny_clip
from tests.tiers import named

families = pytest.mark.parametrize("family", named(KINDS, "qwen2-audio", "gemma4"))
"""Each family; the fast tier has one whose clips share forwards, and one that keeps a cache of its own."""
JOINING = sorted(name for name, kind in KINDS.items() if kind.joins)
joining = pytest.mark.parametrize("family", named(JOINING, "qwen2-audio"))
NOISES = {"same": 0.0, "near": 0.05, "far": 0.3}
SECONDS = (0.1, 0.4, 0.9, 1.7, 3.2)

_folder = tempfile.TemporaryDirectory(prefix="specdec-families-")  # removed when the process ends


@cache
def model(family: str, seed: int, kind: str = "same") -> AudioLM:
    """A loaded checkpoint; all of one family and seed have nearly the same weights, unless `kind` is "far"."""
    return load(write(Path(_folder.name) / f"{family}-{seed}-{kind}", KINDS[family], seed, NOISES[kind]))


@cache
def prompt(of: AudioLM, clip: int, instruction: str = "say how") -> Prompt:
    """A clip and an instruction, ready for a model."""
    return of.processor.prompt(tiny_clip(clip, SECONDS[clip % len(SECONDS)]), instruction)


def drawn_case(family: str, number: int, pair: tuple[str, int] | None = None, **fixed: Any) -> Case:
    """Case `number` of a family: a pair (its kind and seed), a clip, and settings, `fixed` ones as given."""
    rng = random.Random(number)
    kind, seed = pair or (rng.choice([*NOISES]), rng.randrange(2))
    clip, instruction = rng.randrange(10), rng.choice(INSTRUCTIONS)
    edge, cloud = model(family, seed, kind), model(family, seed)
    prompts = (prompt(each, clip, instruction) for each in (edge, cloud))
    return Case(number, Pair.of(edge, cloud), *prompts, drawn_settings(rng, loop_period=0, **fixed))
