"""The page of `specdec serve` as a server sends it: whom it answers, what it may do, and what its downloads hold."""

import base64
import json
from pathlib import Path
from typing import get_args

import httpx
import pytest

from specdec_cli.labels import Lexicon
from specdec_cli.pages.words import words
from specdec_cli.transcript import Transcript
from specdec_cli.types import Flag, GateName, Mode, Reason, Source
from tests.pages.read_page import Page
from tests.support.servers import TOKEN, Running, captioning
from tests.tiers import few

PATHS = ("/", "/page/settings", "/v1/models", "/v1/info", "/metrics")


def streamed(served: Running, path: Path) -> list[Transcript]:
    """What the page makes of a stream: the transcript of each piece."""
    sound = {"data": base64.b64encode(path.read_bytes()).decode(), "format": "wav"}
    content = [{"type": "input_audio", "input_audio": sound}]
    body = {"model": "specdec/hybrid", "stream": True, "messages": [{"role": "user", "content": content}]}
    rounds: dict[int, list[object]] = {}
    found = []
    answer = httpx.post(f"{served.url}/v1/chat/completions", json=body, timeout=120)
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    for told in (json.loads(line)["specdec"] for line in lines[:-1]):
        index = told["piece"]["index"]
        if "block" in told:
            rounds.setdefault(index, []).append(told["block"])
        else:
            line = told["transcript"] | {"file": str(path), "rounds": rounds[index]}
            found.append(Transcript.from_json(json.dumps(line)))
    return found


@pytest.fixture(scope="module")
def pieces(served, long) -> list[Transcript]:
    """The transcripts of the long recording, asked for once."""
    return streamed(served, long)


def test_a_stream_holds_the_transcripts_that_a_command_writes(served, long, pieces):
    found, expected = pieces, list(served.captioner.captions(long))
    assert len(found) == len(expected) > 3
    for here, there in zip(found, expected, strict=True):
        for name in ("caption", "labels", "scores", "measured", "agrees", "flags", "settings", "models", "start_s"):
            assert getattr(here, name) == getattr(there, name)
        assert [each.committed_ids for each in here.rounds] == [each.committed_ids for each in there.rounds]


@pytest.mark.parametrize("suffix", few(["TextGrid", "srt"]))
def test_downloads_equal_exports(served, pieces, specdec, tmp_path, suffix):
    lines = "".join(f"{each.to_json()}\n" for each in pieces)
    (tmp_path / "lines.jsonl").write_text(lines)
    assert specdec("export", tmp_path / "lines.jsonl", "-o", tmp_path / f"out.{suffix}", "-q").code == 0
    answer = httpx.post(f"{served.url}/page/export/{suffix}", content=lines.encode())
    assert answer.text == (tmp_path / f"out.{suffix}").read_text("utf-8")


def test_what_cannot_be_exported_is_refused(served, pieces):
    good = pieces[0]
    two = f"{good.to_json()}\n{good.model_copy(update={'file': 'other.wav'}).to_json()}\n"
    for path, content, status in (
        ("srt", "{}", 422),
        ("srt", "", 422),
        ("srt", two, 422),
        ("eaf", good.to_json(), 404),
    ):
        answer = httpx.post(f"{served.url}/page/export/{path}", content=content)
        assert (answer.status_code, bool(answer.json()["error"]["message"])) == (status, True)


def test_the_page_brings_all_that_it_needs_and_may_do_no_more(served):
    answer = httpx.get(served.url)
    read = Page(answer.text)
    policy = answer.headers["content-security-policy"]
    read.require_offline(policy)
    for rule in ("connect-src 'self'", "frame-ancestors 'none'", "form-action 'none'"):
        assert rule in policy
    assert "mini" not in answer.text  # nothing of the server
    languages = [a["lang"] for _, a in read.elements if "lang" in a]
    assert languages.count("en") == languages.count("zh") + 1 > 10  # the document's own


def admitted(url: str, path: str, **headers: str) -> bool:
    """Whether a request is answered."""
    return httpx.get(f"{url}{path}", headers=headers).status_code not in (401, 403)


@pytest.mark.parametrize("path", few(PATHS, 2))
def test_without_a_token_other_sites_are_refused(served, path):
    port = served.url.rpartition(":")[2]
    assert admitted(served.url, path)
    assert admitted(served.url, path, Origin=served.url)
    assert admitted(served.url, path, Host=f"localhost:{port}", Origin=f"http://localhost:{port}")
    for foreign in (
        {"Host": f"rebound.example:{port}"},
        {"Host": f"rebound.example:{port}", "Origin": f"http://rebound.example:{port}"},
        {"Host": f"127.0.0.1.example:{port}"},
        {"Host": f"127.0.0.1@rebound.example:{port}"},
        {"Origin": "https://site.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},  # a page of another server of this machine
    ):
        assert not admitted(served.url, path, **foreign), foreign
    assert admitted(served.url, "/healthz", Host="probe")


def test_another_site_cannot_have_anything_captioned(served):
    """A form or a script without a preflight may send text; it must not reach the models."""
    headers = {"Origin": "https://site.example", "Content-Type": "text/plain"}
    answer = httpx.post(f"{served.url}/v1/chat/completions", content=b"{}", headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "another_site")


def test_with_a_token_the_page_alone_is_open():
    with captioning() as served:
        assert admitted(served.url, "/", Host="specdec.example")
        for path in PATHS[1:]:
            assert not admitted(served.url, path)
            assert admitted(served.url, path, Authorization=f"Bearer {TOKEN}", Host="specdec.example")


def test_settings_are_those_in_force(served):
    found = httpx.get(f"{served.url}/page/settings").json()
    assert found["modes"] == ["hybrid", "lossless", "edge", "cloud"]
    assert found["mode"] == "hybrid"
    assert found["gate"]["name"] == served.captioner.gate.name
    assert found["gate"]["threshold"] == served.captioner.gate.threshold
    assert found["models"] == ["mini/edge", "mini/cloud"]


def test_the_page_has_words_for_every_flag_reason_mode_and_fate():
    found, lexicon = words(), Lexicon.read()
    assert found["fates"].keys() == {*get_args(Source), "rejected", "cut"}
    assert found["reasons"].keys() == set(get_args(Reason)) - set(get_args(GateName))
    assert found["flags"].keys() == set(get_args(Flag))
    assert found["modes"].keys() == set(get_args(Mode))
    assert found["names"].keys() >= set(lexicon.attributes).union(*lexicon.attributes.values())
    assert found["figures"].keys() == set(lexicon.measured)
    assert found["figures"]["rate"] == ["rate_per_s", 2, 1, " syllables/s", " 音节/秒"]
    assert found["figures"]["pauses"] == ["pause_share", 1, 100, "%", "%"]
