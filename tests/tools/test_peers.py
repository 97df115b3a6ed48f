"""transformers' `generate` is run for any family, with what the loop is given."""

from collections.abc import Iterator

import pytest

from specdec_cli.decoding.pair import Pair
from tests.families import standins
from tests.families.running import model, prompt
from tests.support.kinds import KINDS
from tests.tiers import named
from tests.tiny import settings
from tools.timing import drive, generate

MOST = 12


@pytest.fixture(scope="module", autouse=True)
def _stand_ins() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        standins.install(patch)
        yield


@pytest.mark.parametrize("family", named(KINDS, "qwen2-audio"))
def test_generate_takes_the_prompt_of_any_family(family):
    edge = model(family, 0)
    clip = prompt(edge, 1)
    given = settings(mode="edge", max_new_tokens=MOST, loop_period=0, repetition_penalty=1.0, no_repeat_ngram=0)
    pair = Pair.of(edge, None)
    ours = drive(pair.loop(given, (clip, None)))
    never = [*edge.processor.banned_ids, *range(pair.vocab_size, edge.processor.logits_size)]
    theirs = generate(edge, clip, given.decoding, suppress_tokens=never)
    assert theirs.ids == ours.ids
