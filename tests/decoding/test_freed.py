"""A clip that is done gives its caches back at once, without waiting for the garbage collector."""

from __future__ import annotations

import gc
import weakref

import pytest

from tests.laws.cases import collect, make_case


@pytest.mark.parametrize("mode", ["hybrid", "lossless", "edge", "cloud"])
@pytest.mark.parametrize("ahead", ["auto", "on"])
def test_no_circle_holds_a_finished_clip(mode: str, ahead: str) -> None:
    case = make_case(3, temperature=0.0, mode=mode, gate="always", draft_ahead=ahead)
    loop = case.loop()
    parts = [part for part in (loop.drafter, loop.verifier) if part is not None]
    held = [weakref.ref(part) for part in parts] + [weakref.ref(part.session) for part in parts]  # type: ignore[union-attr]
    del parts
    gc.collect()
    gc.disable()
    try:
        collect(loop.run())
        del loop
        assert [ref() for ref in held] == [None] * len(held)
    finally:
        gc.enable()
