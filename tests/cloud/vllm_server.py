"""A real vLLM server on a checkpoint, where there is one: SPECDEC_VLLM_PYTHON names an interpreter that has vLLM."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NAME = "tiny"
_START_S = 900


@contextmanager
def serving(checkpoint: Path, log: Path) -> Iterator[str]:
    """Starts a server and yields its address; skips the test where vLLM is not there."""
    python = os.environ.get("SPECDEC_VLLM_PYTHON")
    if not python:
        pytest.skip("SPECDEC_VLLM_PYTHON names no interpreter that has vLLM")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(checkpoint)]
    command += ["--served-model-name", NAME, "--dtype", "float32", "--enforce-eager", "--enable-scale-out"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
    }
    url = f"http://127.0.0.1:{port}"
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.STDOUT)
    try:
        _await(f"{url}/health", process, log)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Returns when the server answers; fails with the end of its log if it does not."""
    until = time.monotonic() + _START_S
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-30:])
    pytest.fail(f"vLLM did not start; the end of its log:\n{tail}")
