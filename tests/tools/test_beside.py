"""The time of a clip beside busy processes."""

from __future__ import annotations

import pytest

from tools.beside import measure


@pytest.mark.full
def test_the_time_beside_busy_processes_is_reported() -> None:
    found = measure(processes=1, clips=1)
    assert found["quiet_ms"] > 0
    assert found["times"] == pytest.approx(found["beside_ms"] / found["quiet_ms"], abs=0.02)
