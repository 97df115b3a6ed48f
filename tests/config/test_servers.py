"""Models at addresses: nothing in clear over a network, and no recordings to a vLLM, unless it is allowed."""

import json
from pathlib import Path

import pytest

from specdec_cli.config import CloudConfig, load_config
from tests.config.conftest import assert_refused

URL = "https://cloud.example.org:8765"
SERVER = {
    "edge": "owner/edge",
    "cloud.engine": "vllm",
    "cloud.url": "http://127.0.0.1:8000",
    "cloud.model": "served",
    "cloud.allow_audio_upload": True,
}


def cloud_of(source: str | Path | None = None, environ: dict[str, str] | None = None, **flags: object) -> CloudConfig:
    given = {name.replace("__", "."): value for name, value in flags.items()}
    cloud = load_config(source, flags=given, environ=environ or {}).config.cloud
    assert cloud is not None
    return cloud


def test_an_address_takes_the_place_of_the_model_and_the_other_way_round():
    cloud = cloud_of(cloud__url=URL + "/")
    assert (cloud.url, cloud.model, cloud.label) == (URL, None, URL)
    environ = {"SPECDEC_CLOUD__URL": URL, "SPECDEC_CLOUD__TIMEOUT_S": "2.5"}
    cloud = cloud_of(environ=environ)
    assert (cloud.url, cloud.model, cloud.timeout_s) == (URL, None, 2.5)
    cloud = cloud_of(environ=environ, cloud__model="package:mini/cloud")
    assert (cloud.url, cloud.model) == (None, "package:mini/cloud")
    both = {"SPECDEC_CLOUD__URL": URL, "SPECDEC_CLOUD__MODEL": "package:mini/cloud"}
    cloud = cloud_of(environ=both, cloud__model="package:mini/cloud")
    assert (cloud.url, cloud.model) == (None, "package:mini/cloud"), "chosen again, it is chosen"
    cloud = cloud_of(environ=both, cloud__url=None)
    assert (cloud.url, cloud.model) == (None, "package:mini/cloud"), "no address takes no model's place"


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ({"cloud.url": URL, "cloud.model": "package:mini/cloud"}, ["cloud.url", "cloud.model"]),
        ({"cloud.url": "http://cloud.example.org"}, ["cloud.url", "cloud.allow_plain_http"]),
        ({"cloud.url": "http://127.0.0.1.example.org"}, ["cloud.url", "cloud.allow_plain_http"]),
        ({"cloud.url": "https://host:99999"}, ["cloud.url", "https://host:8765"]),
        ({"cloud.url": "https://user:secret@host"}, ["cloud.url", "token_env"]),
        ({"cloud.url": URL, "edge": None, "decoding.mode": "cloud"}, ["cloud.processor"]),
        ({"cloud.model": URL}, ["cloud.model", "cloud.url"]),
        ({**SERVER, "cloud.allow_audio_upload": False}, ["cloud.allow_audio_upload"]),
        ({**SERVER, "cloud.url": None}, ["cloud.url"]),
        ({**SERVER, "cloud.model": None}, ["cloud.model"]),
        ({**SERVER, "cloud.url": "http://gpu:8000"}, ["cloud.allow_plain_http"]),
        ({**SERVER, "decoding.temperature": 0.5}, ["decoding.temperature"]),
        ({**SERVER, "acceptance.rule": "typical"}, ["acceptance.rule"]),
        ({**SERVER, "acceptance.rule": "rank"}, ["acceptance.rule"]),
        ({**SERVER, "edge.engine": "vllm"}, ["edge.url"]),
        ({**SERVER, "edge.url": "http://127.0.0.1:1"}, ["edge.engine"]),
        ({**SERVER, "edge.url": "http://127.0.0.1:1", "edge.engine": "vllm"}, ["edge.allow_audio_upload"]),
    ],
)
def test_what_makes_no_sense_is_refused(flags, named):
    error = assert_refused(lambda: load_config(flags=flags, environ={}), *named)
    assert "secret" not in error.message


@pytest.mark.parametrize(
    "flags",
    [
        *({"cloud.url": f"http://{host}:1"} for host in ("127.0.0.1", "localhost", "[::1]", "127.9.9.9")),
        {"cloud.url": "http://10.0.0.1:1", "cloud.allow_plain_http": True},
        {**SERVER, "acceptance.rule": "greedy"},
        {**SERVER, "acceptance.rule": "class"},
        {**SERVER, "decoding.mode": "lossless"},
    ],
)
def test_what_makes_sense_is_not(flags):
    assert cloud_of(**flags).label == flags["cloud.url"]


def test_a_later_address_keeps_the_model_of_a_vllm_and_a_later_model_its_address():
    for name, value in (("cloud.url", "https://gpu:9"), ("cloud.model", "other")):
        shipped = cloud_of("qwen2.5-omni-vllm", **{"cloud.allow_audio_upload": True, name: value})
        wanted = {"cloud.url": "http://127.0.0.1:8000", "cloud.model": "Qwen/Qwen2.5-Omni-7B", name: value}
        assert (shipped.url, shipped.model) == (wanted["cloud.url"], wanted["cloud.model"])


def test_a_revision_belongs_to_the_model_of_its_layer(tmp_path):
    path = tmp_path / "own.yaml"
    settings = {name.removeprefix("cloud."): value for name, value in {**SERVER, "cloud.revision": "abc"}.items()}
    path.write_text(json.dumps({"edge": settings.pop("edge"), "cloud": settings}), encoding="utf-8")
    flags = ({"cloud.model": "served"}, {"cloud.model": "other"}, {"cloud.url": "http://127.0.0.1:9"})
    assert [cloud_of(path, **given).revision for given in flags] == ["abc", None, "abc"]


def test_the_shipped_file_waits_for_leave_except_in_mode_edge():
    assert_refused(lambda: load_config("qwen2.5-omni-vllm", environ={}), "cloud.allow_audio_upload")
    flags = {"decoding.mode": "edge", "decoding.temperature": 0.7, "decoding.repetition_penalty": 1.3}
    assert load_config("qwen2.5-omni-vllm", flags=flags, environ={}).config.decoding.temperature == 0.7
