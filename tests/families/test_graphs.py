"""Which families' forwards can be recorded, as a CUDA graph does, and score right when they are repeated."""

from __future__ import annotations

import pytest

from specdec_cli.models.selftest import self_test
from tests.families.checkpoints import KINDS
from tests.families.running import model
from tests.families.test_shared import JOINING
from tests.models.recording import recorded


@pytest.mark.parametrize("family", KINDS)
def test_a_family_is_recorded_or_keeps_a_cache_that_grows(family: str) -> None:
    of = recorded(model(family, 0))
    try:
        self_test(of)
        assert of.self_test is not None
        assert of.self_test.endswith("without graphs") == (family not in JOINING)
    finally:
        of.graphs = None
