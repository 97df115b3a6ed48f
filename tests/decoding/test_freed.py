"""A clip that is done gives its caches back at once, without waiting for the garbage collector."""

import gc
import weakref
from dataclasses import replace

import pytest

from specdec_cli.decoding.build import build_engine
from specdec_cli.decoding.imitation import Imitation
from tests.laws.cases import collect, make_case


@pytest.mark.parametrize("mode", ["hybrid", "lossless", "edge", "cloud"])
@pytest.mark.parametrize("rtt_ms", [None, 1.0])
def test_no_circle_holds_a_finished_clip(mode: str, rtt_ms: float | None) -> None:
    found = make_case(3, temperature=0.0)
    options = replace(found.options, mode=mode, gate="always", acceptance=None, imitation=Imitation(rtt_ms=rtt_ms))
    engine = build_engine(found.pair, options, found.edge_inputs, found.cloud_inputs)
    drafting = weakref.ref(engine._drafter)
    judging = weakref.ref(engine._cloud)
    gc.collect()
    gc.disable()
    try:
        collect(engine.run())
        del engine
        assert drafting() is None
        assert judging() is None
    finally:
        gc.enable()
