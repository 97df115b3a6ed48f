"""transformers' `generate` is run for any family, with what the loop is given."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from specdec_cli.bench.timing import drive, generate
from specdec_cli.decoding.assemble import Pair, build_loop
from tests.families import standins
from tests.families.checkpoints import KINDS
from tests.families.running import banned, config, model, prompt

MOST = 12


@pytest.fixture(scope="module", autouse=True)
def _stand_ins() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        standins.install(patch)
        yield


@pytest.mark.parametrize("family", KINDS)
def test_generate_takes_the_prompt_of_any_family(family: str) -> None:
    edge = model(family, 0)
    clip = prompt(edge, 1)
    settings = config(mode="edge", max_new_tokens=MOST)
    pair = Pair.of(edge, None)
    ours = drive(build_loop(pair, settings, clip, None))
    never = banned(edge, pair.vocab_size)
    theirs = generate(edge, clip, settings.decoding, suppress_tokens=never)
    assert theirs.ids == ours.ids
    assert 0 < theirs.prefill_ms < theirs.wall_ms
