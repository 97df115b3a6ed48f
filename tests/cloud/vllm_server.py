"""Real vLLM servers on tiny checkpoints, where SPECDEC_VLLM_PYTHON names an interpreter that has vLLM.

    python -m tests.cloud.vllm_server FOLDER --clips 1000

makes a tiny random edge and cloud, recordings of noise and `pair.yaml` in a folder, serves both models until it is
ended, and starts a server again that has ended, e.g. by `kill -9 -$(cat FOLDER/edge.pid)`. `tools.served`
measures such a pair.
"""

import argparse
import json
import os
import random
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import soundfile

NAME = "tiny"
_START_S = 1800


def free_port() -> int:
    """Below those that systems give away by themselves: vLLM listens a minute later, and no other may have it then."""
    while True:
        port = random.SystemRandom().randrange(20_000, 30_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class VllmServer:
    """A server in a process group of its own."""

    def __init__(self, checkpoint: Path, log: Path, *options: str) -> None:
        port = free_port()
        self.url, self._log = f"http://127.0.0.1:{port}", log
        self._command = [os.environ["SPECDEC_VLLM_PYTHON"], "-m", "vllm.entrypoints.openai.api_server"]
        self._command += ["--model", str(checkpoint), "--served-model-name", NAME, "--dtype", "float32"]
        # without a worker beside the engine, which would wait busily for it
        self._command += ["--distributed-executor-backend", "uni", "--enforce-eager", "--kv-cache-memory-bytes", "64M"]
        self._command += ["--enable-scale-out", "--host", "127.0.0.1", "--port", str(port), *options]

    def start(self) -> None:
        """Returns at once."""
        environment = {
            **os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # else a worker is started nevertheless
            "VLLM_NO_USAGE_STATS": "1",
        }  # fmt: skip
        with self._log.open("ab") as out:
            self.process = subprocess.Popen(
                self._command, env=environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )
        self._log.with_suffix(".pid").write_text(str(self.process.pid))

    def wait(self) -> None:
        """Returns when it answers. Raises RuntimeError, with the end of its log, if it does not."""
        until = time.monotonic() + _START_S
        while time.monotonic() < until and self.process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.5)
        tail = "\n".join(self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-30:])
        raise RuntimeError(f"vLLM did not start; the end of its log:\n{tail}")

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@contextmanager
def serving(checkpoint: Path, log: Path, *options: str) -> Iterator[str]:
    """Starts a server with more options and yields its address; skips the test where vLLM is not there."""
    if not os.environ.get("SPECDEC_VLLM_PYTHON"):
        pytest.skip("SPECDEC_VLLM_PYTHON names no interpreter that has vLLM")
    server = VllmServer(checkpoint, log, *options)
    server.start()
    try:
        server.wait()
        yield server.url
    finally:
        server.stop()


def write_recordings(folder: Path, count: int, seconds: float = 0.5) -> Path:
    """Noise of `seconds` and a little more."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        samples = np.random.default_rng(number).standard_normal(round(16_000 * seconds) + 400 * (number % 7)) * 0.1
        soundfile.write(folder / f"{number:04}.wav", samples, 16_000)
    return folder


def main() -> None:
    """See the module."""
    from tests.cloud.vllm_cases import CLOUD, edge
    from tests.support.models import audio_module, save_checkpoint

    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--clips", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=2.0)
    given = parser.parse_args()
    write_recordings(given.folder / "recordings", given.clips, given.seconds)
    config: dict[str, dict[str, object]] = {
        "decoding": {"k": "whole", "max_new_tokens": 24},
        "remote": {"allow_audio_upload": True},
    }
    servers = {}
    for side, module in {"edge": edge("near").module, "cloud": audio_module(**CLOUD)}.items():
        checkpoint = given.folder / f"tiny-{side}"
        if not checkpoint.exists():
            save_checkpoint(module, checkpoint)
        servers[side] = VllmServer(checkpoint, given.folder / f"{side}.log")
        config[side] = {
            "model": servers[side].url,
            "served_model": NAME,
            "processor": str(checkpoint),
        }
    (given.folder / "pair.yaml").write_text(json.dumps(config, indent=1))
    for server in servers.values():
        server.start()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for server in servers.values():
            server.wait()
        print("ready", flush=True)
        while True:
            time.sleep(1)
            for server in servers.values():
                if server.process.poll() is not None:
                    server.start()
    except KeyboardInterrupt:
        pass
    finally:
        for server in servers.values():
            server.stop()


if __name__ == "__main__":
    main()
