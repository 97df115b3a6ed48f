"""Recordings, and the command line run in this process on the loaded mini pair."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from specdec_cli.captioner import Captioner
from tests.cli.harness import CHINESE, Outcome, exit_code, load_mini
from tests.mini_pair import mini_pair, write_voice

Specdec = Callable[..., Outcome]
LOAD = Captioner.load
"""What `specdec` replaces."""


@pytest.fixture(scope="session")
def recordings(tmp_path_factory) -> list[str]:
    """Three short recordings."""
    folder = tmp_path_factory.mktemp("recordings")
    return [str(write_voice(folder / f"voice {seed}.wav", seed, 1.0)) for seed in range(3)]


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch) -> None:
    for name in os.environ:
        if name.startswith("SPECDEC_") or name in ("CI", "NO_COLOR", "FORCE_COLOR"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("LC_ALL", CHINESE)  # the language of captions where a test names none


@pytest.fixture
def specdec(monkeypatch, tmp_path, capfdbinary) -> Specdec:
    """Run `specdec ARGUMENTS` in this process and the temporary folder, with the mini pair in place of loading it.

    `ends`: the exit code that it must have. `loads=False`: it must come to its end without a model.
    """
    mini_pair()
    monkeypatch.setattr(Captioner, "load", load_mini)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path, ends: int | None = None, loads: bool = True) -> Outcome:
        with monkeypatch.context() as patched:
            patched.setattr(sys, "argv", ["specdec", *map(str, arguments)])
            if not loads:
                patched.setattr(Captioner, "load", lambda *_, **__: pytest.fail("loaded"))
            capfdbinary.readouterr()
            code = exit_code()
        out, err = (stream.decode() for stream in capfdbinary.readouterr())
        assert ends in (None, code), err
        return Outcome(code, out, err)

    return run


@pytest.fixture
def really_loading(specdec, monkeypatch) -> Specdec:
    """`specdec` with the real loading of models."""
    monkeypatch.setattr(Captioner, "load", LOAD)
    return specdec
