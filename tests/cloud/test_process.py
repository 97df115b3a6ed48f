"""`specdec serve` as a process of its own, with the mini pair, and the mini edge that asks it."""

import ctypes
import json
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import pytest

from specdec_cli.captioner import Captioner
from specdec_cli.cloud.http import RefusedError, failure_of
from specdec_cli.cloud.verify_client import VerifyClient
from specdec_cli.config import Server, load_config
from specdec_cli.errors import ConfigError
from specdec_cli.serve import server
from specdec_cli.serve.limits import ServeLimits
from specdec_cli.serve.server import ServerAddress
from tests.cli.harness import COMMAND, environment
from tests.laws.test_wire_law import rounded
from tests.mini_pair import RATE, mini_pair, voice
from tests.support.servers import answering, verifying
from tests.tiny import collect

START_S = 300
TOKEN = "s3cret-s3cret-s3cret"
ROOT = Path(__file__).parents[2]


class Process:
    """A running `specdec serve`."""

    client: dict[str, object]  # settings of whoever calls it

    def __init__(self, *arguments: str, **variables: str) -> None:
        command = [*COMMAND, "serve", "--port", "0", *arguments]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment(**variables))
        self.events: list[dict[str, Any]] = []
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            self.read()
            if self.events[-1]["event"] == "ready":
                break
        self.url = str(self.events[-1]["url"])

    def read(self) -> None:
        line = self.process.stderr.readline()
        assert line, f"it ended: {self.process.wait()}"
        self.events.append(json.loads(line))

    def close(self) -> None:
        """Ends it if it runs still."""
        if self.process.poll() is None:
            self.end()
        self.process.stderr.close()

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        rest = self.process.stderr.read()
        self.events += [json.loads(line) for line in rest.splitlines()]
        return self.process.wait(60)


@pytest.fixture(scope="module")
def process(tmp_path_factory) -> Iterator[Process]:
    """One for all tests, with a token and TLS; its log does not hold the token, and it ends as if terminated."""
    pem, key = certificate(tmp_path_factory.mktemp("tls"))
    arguments = ("--token-env", "SERVE_TOKEN", *("--set", f"serve.tls_cert={pem}", "--set", f"serve.tls_key={key}"))
    process = Process(*arguments, SERVE_TOKEN=TOKEN)
    process.client = {"remote__ca_file": str(pem), "cloud__token_env": "OUR_TOKEN"}
    try:
        yield process
        assert process.end() == 143
        assert TOKEN not in json.dumps(process.events)
    finally:
        process.close()


@pytest.fixture(autouse=True)
def our_token(monkeypatch) -> None:
    monkeypatch.setenv("OUR_TOKEN", TOKEN)


def captioner(url: str, **settings: object) -> Captioner:
    """The mini edge, which is loaded once, and a cloud at an address."""
    flags = {name.replace("__", "."): value for name, value in settings.items()} | {"cloud.model": url}
    with patch("specdec_cli.pairs.load_model", return_value=mini_pair().edge):
        return Captioner.load(load_config("mini", flags={"remote.timeout_s": 30.0} | flags, environ={}).config)


@pytest.mark.slow
def test_captions_are_those_of_one_process(process):
    pair = mini_pair()
    for mode, k, seed in (("hybrid", 2, 1), ("hybrid", 5, 2), ("lossless", 5, 3), ("lossless", 3, 4)):
        unsure = {"gate__threshold": 0.2} if mode == "hybrid" else {}
        away = captioner(process.url, **process.client, decoding__mode=mode, decoding__k=k, **unsure)
        edge_prompt, cloud_prompt = away.pair.prompts(away.config, voice(seed), away.shared.instruction)
        assert edge_prompt is not None
        assert cloud_prompt is not None
        sent, sound = partial(rounded, cloud_prompt()), away.run_samples(voice(seed), RATE).grounding
        loop = pair.new_loop(away.config, (edge_prompt, sent), away.gate, grounding=sound)
        here = collect(loop.events())[1]
        transcript = away.run_samples(voice(seed), RATE).finish()
        ids = [id_ for round_ in transcript.rounds for id_ in round_.committed_ids]
        assert (tuple(ids), transcript.degraded) == (here.token_ids, None)
        asked = [round_ for round_ in transcript.rounds if round_.escalated]
        assert transcript.uplink.payload == ("features" if asked else "none")
        assert all(round_.network_ms is not None and round_.bytes_up for round_ in asked)
        assert sum(round_.bytes_up or 0 for round_ in asked) == transcript.uplink.bytes
        assert (transcript.models.cloud.name, transcript.models.cloud.serves) == (process.url, "package:mini/cloud")
        assert away.pair.remotes
        assert "answered in" in away.pair.remotes[0].probe()
        away.close()


def test_a_transcript_describes_a_cloud_that_answered_late():
    with verifying(mini_pair().cloud) as served:
        with patch.object(VerifyClient, "start"):  # as if nothing had listened yet
            late = captioner(served.url, decoding__mode="lossless")
        assert late.shared.models.cloud.serves is None
        found = late.run_samples(voice(5), RATE).finish().models.cloud
    assert (found.name, found.serves) == (served.url, "package:mini/cloud")
    assert found.weights is not None
    connection = late.pair.remotes[0].connection
    assert connection._thread.is_alive()
    with late:
        pass
    assert not connection._thread.is_alive()
    assert connection._client.is_closed


def test_a_server_that_says_it_is_ready_takes_connections(monkeypatch):
    place, pair, reached = ServerAddress("127.0.0.1", 0), mini_pair(), list[str]()

    def connect(name: str, **fields: object) -> None:
        if name == "ready":
            url = httpx.URL(fields["url"])
            socket.create_connection((url.host, url.port)).close()
            reached.append(name)
            signal.raise_signal(signal.SIGINT)  # the test is over

    monkeypatch.setattr(server, "event", connect)
    monkeypatch.setattr(server, "log_json", lambda **_: None)
    monkeypatch.setattr(Captioner, "load", lambda config: Captioner(config, pair))
    resolved = load_config("mini", environ={})
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            server.serve_configured(resolved, place, None, ServeLimits(), room=1, debug=False)
    finally:
        signal.signal(signal.SIGINT, before)
    assert reached == ["ready"]


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for this machine that no authority vouches for, and its key, made as docs/remote.md says."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    text = (ROOT / "docs/remote.md").read_text().replace("DNS:cloud.example.org", "IP:127.0.0.1").replace("\\\n", "")
    command = next(line for line in text.splitlines() if line.startswith("openssl"))
    subprocess.run(shlex.split(command), check=True, capture_output=True, cwd=folder)
    return folder / "cert.pem", folder / "key.pem"


@pytest.mark.slow
def test_a_token_and_a_certificate_of_its_own(process, monkeypatch):
    assert process.url.startswith("https://")
    mode = {"decoding__mode": "lossless", "decoding__fallback": "on"}
    with pytest.raises(ConfigError, match="is not trusted by the public authorities") as caught:
        captioner(process.url, **mode)
    assert "name it in remote.ca_file" in str(caught.value.hint)
    with pytest.raises(ConfigError, match="mismatch, certificate is not valid for 'localhost'") as caught:
        captioner(process.url.replace("127.0.0.1", "localhost"), **process.client, **mode)
    assert "Write the host in cloud.model as the certificate has it" in str(caught.value.hint)
    plain = captioner(process.url.replace("https:", "http:"), **mode)
    assert "write https:// in cloud.model" in str(plain.run_samples(voice(9), RATE).finish().degraded)
    monkeypatch.setenv("OUR_TOKEN", "wrong")
    with pytest.raises(ConfigError, match="the access token is missing or wrong"):
        captioner(process.url, **process.client, **mode)


def test_https_to_a_server_without_tls_is_a_mistake_of_set_up():
    with answering(lambda *_: (200, b"{}")) as url, pytest.raises(ConfigError, match="it does not use TLS") as caught:
        captioner(url.replace("http:", "https:"), decoding__mode="lossless")
    assert "Write http:// in cloud.model" in str(caught.value.hint)


def test_a_server_that_asks_for_a_clients_certificate_is_not_said_to_lack_tls():
    alert = httpx.ReadError("[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required (_ssl.c:2580)")
    with pytest.raises(RefusedError, match="alert certificate required") as caught:
        failure_of(alert, Server(url="https://127.0.0.1:8765"), "cloud")
    assert "ask for a client's certificate" in str(caught.value.hint)


@pytest.mark.parametrize("status", [301, 400])
def test_a_web_server_that_expects_tls_is_named_as_such(status):
    with (
        answering(lambda *_: (status, b"<html>The plain HTTP request was sent to HTTPS port</html>")) as url,
        pytest.raises(ConfigError, match=f"answers status {status}: no reason given") as caught,
    ):
        captioner(url, decoding__mode="lossless")
    assert "https:// if that uses TLS" in str(caught.value.hint)


CLIPS_OF_MANY_LENGTHS = """
import ctypes
from specdec_cli import Captioner
from specdec_cli.cli.process import prepare_process
from specdec_cli.models.processor import test_sound
from specdec_cli.models.session import Session

prepare_process()
names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
allocated = ctypes.CDLL(None).mallinfo2
allocated.restype = type("Allocated", (ctypes.Structure,), {"_fields_": [(n, ctypes.c_size_t) for n in names.split()]})
edge = Captioner.load("mini", {"decoding.mode": "edge"}).pair.edge
for n in range(60):
    Session(edge, edge.processor.prompt(test_sound(3 + n / 50, 16000), "How?"), 1).logits(())
    if n in (19, 59):
        print(allocated().uordblks >> 20)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(ctypes.pythonapi, "mallinfo2"), reason="the C library does not tell what it allocated")
def test_lengths_of_audio_that_no_clip_had_before_take_no_memory_that_stays():
    command = [sys.executable, "-c", CLIPS_OF_MANY_LENGTHS]
    own = {k: v for k, v in environment().items() if "CAPACITY" not in k and not k.startswith("MALLOC_")}
    some, all_ = map(
        int, subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=own).stdout.split()
    )
    assert all_ < some + 20  # MiB; without bounds 40 more clips take 50 to 100
