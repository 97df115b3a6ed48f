"""In a process of its own: a model out of the hub's cache, no network, and not a word on the terminal."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import socket, sys
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

models = [load(sys.argv[1]), load("acme/tiny-omni"), load("acme/tiny-omni", revision="v1")]
assert len({tuple(greedy(model)) for model in models}) == 1
assert len({model.weights for model in models}) == 1
for model, options in (("acme/other", {}), ("acme/tiny-omni", {"revision": "v2"}), ("acme/half", {})):
    try:
        load(model, **options)
        raise SystemExit(f"{model} was loaded")
    except CheckpointError as error:
        assert "runtime.offline forbids downloads" in error.message
assert not attempts, attempts
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
def test_a_cached_hub_model_loads_offline_in_silence(hub_dir: Path, tmp_path: Path) -> None:
    cache = tmp_path / "home" / "hub"
    _publish(cache, "tiny-omni", hub_dir, "main", "v1")
    (_publish(cache, "half", hub_dir, "main") / "model-00002-of-00003.safetensors").unlink()
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "TRANSFORMERS_"))}
    environment |= {"HF_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(hub_dir)],
        env=environment,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
