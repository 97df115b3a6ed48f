"""Calls that fail are tried as often as ever, after pauses of milliseconds."""

import pytest


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch) -> None:
    monkeypatch.setattr("specdec_cli.cloud.remote.PAUSE_S", 0.001)
