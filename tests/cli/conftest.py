"""Recordings, and the command line run in this process on the loaded mini pair."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from specdec_cli.captioner import Captioner
from tests.cli.harness import CHINESE, Outcome, load_mini
from tests.cli.status import exit_code
from tests.mini_pair import mini_pair, write_voice

Specdec = Callable[..., Outcome]


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Three short recordings."""
    folder = tmp_path_factory.mktemp("recordings")
    return [str(write_voice(folder / f"voice {seed}.wav", seed, 1.0)) for seed in range(3)]


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("SPECDEC_") or name in ("CI", "NO_COLOR", "FORCE_COLOR"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("LC_ALL", CHINESE)  # the language of captions where a test names none


@pytest.fixture
def specdec(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Specdec:
    """Run `specdec ARGUMENTS` in this process: `main` and all, with the mini pair in place of loading it."""
    mini_pair()
    monkeypatch.setattr(Captioner, "load", load_mini)

    def run(*arguments: str | Path) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["specdec", *map(str, arguments)])
        capfdbinary.readouterr()
        code = exit_code()
        out, err = capfdbinary.readouterr()
        return Outcome(code, out.decode(), err.decode())

    return run


@pytest.fixture
def unloaded(specdec: Specdec, monkeypatch: pytest.MonkeyPatch) -> None:
    """No model is loaded from here on."""
    monkeypatch.setattr(Captioner, "load", lambda *_, **__: pytest.fail("loaded"))
