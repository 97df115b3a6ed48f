"""Checkpoints written once, copies of them to damage, and a guard: nothing here may touch the network or a prompt."""

import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.checkpoints import Edit, write_hub
from tests.support.models import save_checkpoint, tiny_module


@pytest.fixture(autouse=True)
def alone(monkeypatch) -> Iterator[None]:
    """Fails a test during which somebody looked up a host, connected, or asked the user."""
    attempts: list[str] = []

    def refuse(what: str) -> Callable[..., Any]:
        def attempt(*args: Any, **_: Any) -> Any:
            attempts.append(f"{what}{args[:2]}")
            raise OSError(f"{what} in a test")

        return attempt

    monkeypatch.setattr(socket, "getaddrinfo", refuse("getaddrinfo"))
    monkeypatch.setattr(socket.socket, "connect", refuse("connect"))
    monkeypatch.setattr("builtins.input", refuse("input"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    yield
    assert not attempts


@pytest.fixture(scope="session")
def thinker_dir(tmp_path_factory) -> Path:
    """A float32 thinker-only checkpoint in one file."""
    return save_checkpoint(tiny_module(11), tmp_path_factory.mktemp("thinker") / "tiny")


@pytest.fixture(scope="session")
def hub_dir(tmp_path_factory) -> Path:
    """The same weights in bfloat16 as a full checkpoint in three files."""
    return write_hub(tmp_path_factory.mktemp("hub") / "Tiny-Omni", tiny_module(11).bfloat16())


@pytest.fixture
def damaged(thinker_dir, tmp_path) -> Callable[..., Path]:
    """A copy of the thinker-only checkpoint (or of another) after some edits."""

    def make(*edits: Edit, source: Path = thinker_dir) -> Path:
        folder = tmp_path / "copy"
        shutil.copytree(source, folder)
        for edit in edits:
            edit(folder)
        return folder

    return make
