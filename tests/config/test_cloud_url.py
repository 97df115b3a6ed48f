"""A cloud at an address: exactly one of model and url, and nothing in clear over a network unless it is asked for."""

from __future__ import annotations

import pytest

from specdec_cli.config import load_config
from specdec_cli.errors import ConfigError

URL = "https://cloud.example.org:8765"


def test_an_address_takes_the_place_of_the_model_and_the_other_way_round() -> None:
    cloud = load_config("mini", flags={"cloud.url": URL + "/"}, environ={}).config.cloud
    assert cloud is not None
    assert (cloud.url, cloud.model, cloud.label) == (URL, None, URL)
    environ = {"SPECDEC_CLOUD__URL": URL, "SPECDEC_CLOUD__TIMEOUT_S": "2.5"}
    cloud = load_config("mini", environ=environ).config.cloud
    assert cloud is not None
    assert (cloud.url, cloud.model, cloud.timeout_s) == (URL, None, 2.5)
    cloud = load_config("mini", flags={"cloud.model": "package:mini/cloud"}, environ=environ).config.cloud
    assert cloud is not None
    assert (cloud.url, cloud.model) == (None, "package:mini/cloud")


def test_it_survives_being_written_out(tmp_path: pytest.TempPathFactory) -> None:
    resolved = load_config("mini", flags={"cloud.url": URL, "cloud.token_env": "TOKEN"}, environ={})
    path = tmp_path / "own.yaml"  # type: ignore[operator]
    path.write_text(resolved.to_yaml(), encoding="utf-8")
    assert load_config(path, environ={}).config == resolved.config


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"cloud.url": URL, "cloud.model": "package:mini/cloud"}, "but cloud.model is package:mini/cloud"),
        ({"cloud.url": URL, "cloud.dtype": "float32"}, "cloud.dtype is float32"),
        ({"cloud.token_env": "TOKEN"}, "but cloud.url is null"),
        ({"cloud.url": "http://cloud.example.org"}, "which is not encrypted"),
        ({"cloud.url": "http://127.0.0.1.example.org"}, "which is not encrypted"),
        ({"cloud.url": "ftp://host"}, "is no address"),
        ({"cloud.url": "cloud.example.org:8765"}, "is no address"),
        ({"cloud.url": "https://host:99999"}, "is no address"),
        ({"cloud.url": "https://user:secret@host"}, "holds a user or a password"),
        ({"cloud.url": "https://host/?a=b"}, "holds a ? or a #"),
        ({"cloud.url": URL, "cloud.token_env": "not a name"}, "the name of an environment variable"),
        ({"cloud.url": URL, "cloud.timeout_s": 0}, "cloud.timeout_s must be a number above 0"),
        ({"cloud.urll": URL}, "there is no setting cloud.urll"),
        ({"cloud.model": URL}, "a server is named in cloud.url"),
    ],
)
def test_what_makes_no_sense_is_refused(flags: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config("mini", flags=flags, environ={})
    assert said in f"{caught.value.message} {caught.value.hint}"
    assert "secret" not in caught.value.message


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1", "http://127.9.9.9:1"])
def test_this_machine_may_be_reached_in_clear(url: str) -> None:
    assert load_config("mini", flags={"cloud.url": url}, environ={}).config.cloud is not None
    far = {"cloud.url": "http://10.0.0.1:1", "cloud.allow_plain_http": True}
    assert load_config("mini", flags=far, environ={}).config.cloud is not None


def test_a_cloud_needs_one_of_the_two(tmp_path: pytest.TempPathFactory) -> None:
    path = tmp_path / "none.yaml"  # type: ignore[operator]
    path.write_text("edge: {model: package:mini/edge}\ncloud: {timeout_s: 3}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"cloud\.model is not given"):
        load_config(path, environ={})
