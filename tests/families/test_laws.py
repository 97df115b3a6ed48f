"""The edge and the cloud law for every family, over pairs, clips and settings, one clip at a time or several.

For each family and mode 4 cases of 60, and 27 of 420.
"""

import pytest

from specdec_cli.errors import SpecdecError
from tests.families.running import drawn_case, families
from tests.laws.checks import assert_best, cloud_law, edge_law
from tests.laws.reference import cloud_oracle
from tests.laws.test_batch_law import decode_together
from tests.laws.tolerance import numbers
from tests.support.kinds import KINDS
from tests.tiers import few

CLIPS = 8


@pytest.mark.parametrize("mode", few(["lossless", "edge"]))
@families  # one after the other: both laws use the same checkpoints
def test_the_text_is_that_of_generate(law, family, mode):
    """Without escalations that of the edge, with every block verified that of the cloud."""
    cases = (drawn_case(family, number, mode=mode) for number in numbers(share=0.065))
    law(f"{family}, {mode}", cases, edge_law if mode == "edge" else cloud_law)


@pytest.mark.slow
@pytest.mark.parametrize("family", KINDS)
def test_eight_clips_together_get_their_own_texts(family):
    batch = [drawn_case(family, number, ("near", 0), mode="lossless") for number in range(CLIPS)]
    for case, ran in zip(batch, decode_together(batch, CLIPS), strict=True):
        assert not isinstance(ran, SpecdecError), ran
        assert_best(case, ran[1], cloud_oracle(case), case.cloud.processor.eos_ids)
