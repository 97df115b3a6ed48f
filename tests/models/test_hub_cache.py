"""In a process of its own: a model out of the hub's cache, no network, and not a word on the terminal."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

PROGRAM = """
import logging, socket, sys
attempts = []
def refuse(*args, **_):
    attempts.append(args[:2])
    raise OSError("network")
socket.getaddrinfo = socket.socket.connect = refuse

from specdec_cli.config import ModelConfig
from specdec_cli.errors import CheckpointError
from specdec_cli.models.loading import load_model
from tests.models.checkpoints import greedy

def load(model, **options):
    return load_model(ModelConfig(model=model, device="cpu", **options), offline=True)

hub_dir, damaged_dir, result = sys.argv[1:]
here = load(hub_dir)
cached = load("acme/tiny-omni")
pinned = load("acme/tiny-omni", revision="v1")
texts = [greedy(model) for model in (here, cached, pinned)]
assert texts[0] == texts[1] == texts[2]
assert cached.name == "acme/tiny-omni"
assert cached.weights == pinned.weights == here.weights
assert here.weights.startswith("sha256:")
messages = []
for model, options in (
    ("acme/other", {}),
    ("acme/tiny-omni", {"revision": "v2"}),
    ("acme/half", {}),
    ("acme/foreign", {}),
    ("acme/pickled", {}),
    (damaged_dir, {}),
):
    try:
        load(model, **options)
    except CheckpointError as error:
        messages.append(error.message)
assert not attempts, attempts
with open(result, "w") as file:
    file.write("\\n".join(messages))
"""


def _publish(cache: Path, name: str, source: Path, *refs: str) -> Path:
    repository = cache / f"models--acme--{name}"
    snapshot = repository / "snapshots" / "0123456789abcdef0123456789abcdef01234567"
    shutil.copytree(source, snapshot)
    (repository / "refs").mkdir()
    for ref in refs:
        (repository / "refs" / ref).write_text(snapshot.name)
    return snapshot


@pytest.mark.full
def test_a_cached_hub_model_loads_offline_in_silence(hub_dir: Path, thinker_dir: Path, tmp_path: Path) -> None:
    cache = tmp_path / "home" / "hub"
    _publish(cache, "tiny-omni", hub_dir, "main", "v1")
    (_publish(cache, "half", hub_dir, "main") / "model-00002-of-00003.safetensors").unlink()
    foreign = _publish(cache, "foreign", thinker_dir, "main") / "config.json"
    foreign.write_text('{"model_type": "foreign", "auto_map": {"AutoConfig": "evil.C"}}')
    pickled = _publish(cache, "pickled", thinker_dir, "main")
    torch.save(load_file(pickled / "model.safetensors"), pickled / "pytorch_model.bin")
    (pickled / "model.safetensors").unlink()
    damaged = tmp_path / "damaged"
    shutil.copytree(thinker_dir, damaged)
    config = damaged / "config.json"
    config.write_text(config.read_text().replace('"num_hidden_layers": 2', '"num_hidden_layers": 1'))
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "TRANSFORMERS_"))}
    environment |= {"HF_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(hub_dir), str(damaged), str(tmp_path / "messages")],
        env=environment,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    other, revision, half, of_foreign, of_pickled, of_damaged = (tmp_path / "messages").read_text().split("\n")
    absent = "is not in the local hub cache, or not all of it, and downloads are off"
    assert other == f"acme/other {absent}"
    assert revision == f"acme/tiny-omni {absent}"
    assert half == f"acme/half {absent}"
    assert of_foreign.startswith("acme/foreign is of type 'foreign', which transformers")
    assert of_pickled == "acme/pickled holds only pickled weights, which are never loaded"
    assert of_damaged.startswith(f"{damaged} ")
