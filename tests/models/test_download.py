"""What a checkpoint of the hub downloads, before and while it does; a small server stands in for the hub."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from safetensors.torch import save_file
from transformers.utils.logging import is_progress_bar_enabled

from specdec_cli.config import ModelConfig
from specdec_cli.config.schema import RuntimeConfig
from specdec_cli.models.loading import forecast, load_model
from tests.support.checkpoints import assert_refused, edit_json, greedy, load, write_hub
from tests.support.machine import NOBODY
from tests.support.models import tiny_module
from tests.support.servers import Answer, answering

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NAME = "acme/omni"
ONLINE = RuntimeConfig()
TALKER = "model-talker.safetensors"


@dataclass
class Hub:
    """A folder that is served as a repository, and what was asked of it: methods and paths."""

    folder: Path
    requests: list[tuple[str, str]] = field(default_factory=list)

    @property
    def weights(self) -> list[str]:
        """The files of weights that were fetched."""
        fetched = (path.rpartition("/")[2] for method, path in self.requests if method == "GET")
        return sorted(name for name in fetched if name.endswith(".safetensors"))

    def answer(self, method: str, address: str, *_: object) -> Answer:
        """In the manner of the hub."""
        path = address.partition("?")[0]
        self.requests.append((method, path))
        if path.startswith(f"/api/models/{NAME}/revision/"):
            return 200, json.dumps({"id": NAME, "sha": COMMIT, "siblings": []}).encode()
        if path.startswith(f"/api/models/{NAME}/tree/"):
            found = sorted(self.folder.iterdir())
            files = [{"type": "file", "path": f.name, "size": f.stat().st_size, "oid": _tag(f)} for f in found]
            return 200, json.dumps(files).encode()
        file = self.folder / path.rpartition("/")[2]
        if path.startswith(f"/{NAME}/resolve/") and file.is_file():
            return 200, file.read_bytes(), {"ETag": f'"{_tag(file)}"', "X-Repo-Commit": COMMIT}
        return 404, b""


def _tag(file: Path) -> str:
    return hashlib.sha1(file.read_bytes(), usedforsecurity=False).hexdigest()


@pytest.fixture(autouse=True)
def alone() -> None:
    """These tests use the network, as far as the machine itself."""


@pytest.fixture
def hub(tmp_path, monkeypatch) -> Iterator[Hub]:
    """A full Omni checkpoint of three files, of which one holds the talker alone; nothing of it is cached."""
    folder = write_hub(tmp_path / "hub", tiny_module(5).bfloat16(), shards=2)
    save_file({"talker.more.weight": torch.ones(64, 64)}, folder / TALKER)
    edit_json("model.safetensors.index.json", **{"weight_map__talker.more.weight": TALKER})(folder)
    served = Hub(folder)

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    with answering(served.answer) as address:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
        template = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
        yield served


def model_config(name: str = NAME) -> ModelConfig:
    return ModelConfig(model=name, device="cpu")


@pytest.mark.slow
def test_the_weights_that_speech_needs_are_downloaded_and_no_others(hub, monkeypatch):
    told, bars = list[str](), list[bool]()

    def snapshot_download(*args: Any, **how: Any) -> Any:
        bars.append(is_progress_bar_enabled())
        return huggingface_hub.snapshot_download(*args, **how)

    monkeypatch.setattr("specdec_cli.models.loading.snapshot_download", snapshot_download)
    model = load_model(model_config(), ONLINE, told.append)
    needed = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    assert hub.weights == needed
    assert told == [f"downloading weights of {NAME}"]
    assert bars == [False, True]  # the hub shows those of the weights
    assert greedy(model, 8) == greedy(load(hub.folder), 8)
    assert load_model(model_config(), ONLINE, told.append).weights == model.weights
    assert (hub.weights, len(told)) == (needed, 1)


@pytest.mark.slow
def test_what_is_cached_loads_offline_in_silence(hub, tmp_path, capfd):
    weights = load_model(model_config(f"{NAME}@v1"), ONLINE).weights
    asked = len(hub.requests)
    capfd.readouterr()
    assert load(f"{NAME}@v1").weights == weights
    assert_refused(f"{NAME}@v2", "runtime.offline forbids downloads")
    snapshot = tmp_path / "cache" / "models--acme--omni" / "snapshots" / COMMIT
    (snapshot / "model-00001-of-00002.safetensors").unlink()
    assert_refused(f"{NAME}@v1", "runtime.offline forbids downloads")
    assert capfd.readouterr() == ("", "")
    assert len(hub.requests) == asked


def test_what_would_be_downloaded_is_told_without_it(hub):
    needs = forecast(model_config(), offline=False)
    assert needs.download == sum(file.stat().st_size for file in hub.folder.glob("model-0*"))
    assert hub.weights == []
    module = tiny_module(5)
    speech = sum(weight.numel() for name, weight in module.named_parameters() if "visual" not in name)
    assert (needs.parameters, needs.kind) == (speech, "bfloat16")
    assert needs.bytes == round(1.1 * 2 * speech)


def test_a_hub_out_of_reach_is_told_in_words(hub, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", NOBODY)
    assert_refused(NAME, "network", offline=False)
