"""What a checkpoint of the hub downloads, before and while it does; a small server stands in for the hub."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from specdec_cli.config import ModelConfig
from specdec_cli.errors import CheckpointError
from specdec_cli.models import download, loading
from specdec_cli.models.download import Download
from specdec_cli.models.loading import forecast, load_model
from tests.models.checkpoints import edit_json, greedy, load, write_hub
from tests.tiny import tiny_module

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NAME = "acme/omni"
TALKER = "model-talker.safetensors"


@dataclass
class Hub:
    """A folder that is served as a repository, and the files that were fetched from it."""

    folder: Path
    fetched: list[str] = field(default_factory=list)

    def answer(self, path: str) -> tuple[dict[str, str], bytes] | None:
        """Headers and body for a path, in the manner of the hub."""
        if path.startswith(f"/api/models/{NAME}/revision/"):
            return {}, json.dumps({"id": NAME, "sha": COMMIT, "siblings": []}).encode()
        if path.startswith(f"/api/models/{NAME}/tree/"):
            files = [{"type": "file", "path": f.name, "size": f.stat().st_size, "oid": _tag(f)} for f in self._files()]
            return {}, json.dumps(files).encode()
        file = self.folder / path.rpartition("/")[2]
        if path.startswith(f"/{NAME}/resolve/") and file.is_file():
            return {"ETag": f'"{_tag(file)}"', "X-Repo-Commit": COMMIT}, file.read_bytes()
        return None

    def _files(self) -> list[Path]:
        return sorted(self.folder.iterdir())


def _tag(file: Path) -> str:
    return hashlib.sha1(file.read_bytes(), usedforsecurity=False).hexdigest()


@pytest.fixture(autouse=True)
def alone() -> None:
    """These tests use the network, as far as the machine itself."""


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A full Omni checkpoint of three files, of which one holds the talker alone; nothing of it is cached."""
    folder = write_hub(tmp_path / "hub", tiny_module(5).bfloat16(), shards=2)
    save_file({"talker.more.weight": torch.ones(64, 64)}, folder / TALKER)
    edit_json("model.safetensors.index.json", **{"weight_map__talker.more.weight": TALKER})(folder)
    served = Hub(folder)

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._send(body=False)

        def do_GET(self) -> None:
            self._send(body=True)

        def _send(self, *, body: bool) -> None:
            found = served.answer(self.path.partition("?")[0])
            self.send_response(404 if found is None else 200)
            headers, content = found or ({}, b"")
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            if body:
                served.fetched.append(self.path.rpartition("/")[2])
                self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
    template = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    yield served
    server.shutdown()
    server.server_close()


def model_config(**settings: Any) -> ModelConfig:
    return ModelConfig(model=NAME, device="cpu", **settings)


def test_the_weights_that_speech_needs_are_downloaded_and_no_others(hub: Hub) -> None:
    seen: list[tuple[Download, int]] = []
    model = load_model(model_config(), offline=False, watch=lambda *told: seen.append(told))
    weights = [name for name in hub.fetched if name.endswith(".safetensors")]
    assert sorted(weights) == ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    told, before = seen[0]
    assert before == 0
    assert (told.files, told.left_out) == (2, 1)
    assert told.bytes == sum((hub.folder / name).stat().st_size for name in weights)
    assert "2 files of weights" in str(told)
    assert greedy(model, 8) == greedy(load(hub.folder), 8)
    fetched = len(hub.fetched)
    assert load_model(model_config(), offline=True).weights == model.weights
    assert load_model(model_config(), offline=False).weights == model.weights
    assert not [name for name in hub.fetched[fetched:] if name.endswith(".safetensors")]


def test_what_would_be_downloaded_is_told_without_it(hub: Hub) -> None:
    needs, told = forecast(model_config(), offline=False)
    assert told is not None
    assert told.files == 2
    assert not [name for name in hub.fetched if name.endswith(".safetensors")]
    module = tiny_module(5)
    speech = sum(weight.numel() for name, weight in module.named_parameters() if "visual" not in name)
    assert (needs.parameters, needs.dtype) == (speech, "bfloat16")
    assert needs.weights[None] == 2 * speech


def test_a_disk_without_room_is_told_before_anything_is_fetched(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "_KEPT_FREE", 1 << 60)
    with pytest.raises(CheckpointError, match="there is no room for acme/omni: 2 files") as caught:
        load_model(model_config(), offline=False)
    assert "HF_HUB_CACHE" in str(caught.value.hint)
    assert not [name for name in hub.fetched if name.endswith(".safetensors")]


def test_a_model_that_the_memory_can_never_hold_is_not_downloaded(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    needed, _ = forecast(model_config(), offline=False)
    monkeypatch.setattr("specdec_cli.models.needs._memory", lambda _: (needed.bytes, needed.bytes - 1))
    with pytest.raises(CheckpointError, match="was not downloaded: it would take") as caught:
        load_model(model_config(), offline=False)
    assert "Instead: " in str(caught.value.hint)
    assert not [name for name in hub.fetched if name.endswith(".safetensors")]


def test_offline_and_a_hub_out_of_reach_are_told_in_words(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CheckpointError, match="downloads"):
        load_model(model_config(), offline=True)
    assert hub.fetched == []
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(CheckpointError) as caught:
        load_model(model_config(), offline=False)
    assert "network" in str(caught.value.hint)


def test_a_refused_configuration_costs_no_weights(hub: Hub) -> None:
    edit_json("config.json", quantization_config={"quant_method": "awq"})(hub.folder)
    with pytest.raises(CheckpointError, match="quantised with awq"):
        loading.load_model(model_config(), offline=False)
    assert not [name for name in hub.fetched if name.endswith(".safetensors")]
