"""Settings of 0.1 that are gone: the refusal names what to do instead, wherever they are given."""

from __future__ import annotations

from pathlib import Path

import pytest

from specdec_cli.config import load_config, parse_setting
from specdec_cli.errors import ConfigError

REMOVED = ("link.rtt_ms", "link.mbps", "simulate.edge_step_ms", "simulate.cloud_step_ms")
FORMER = (
    ("edge.compile", "off", "null"),
    ("cloud.compile", "reduce-overhead", "default"),
    ("decoding.run_on", "auto", "0 to 64"),
)


@pytest.mark.parametrize("name", REMOVED)
def test_a_removed_setting_names_the_relay(name: str, tmp_path: Path) -> None:
    section, _, field = name.partition(".")
    file = tmp_path / "my.yaml"
    file.write_text(f"edge: {{model: package:mini/edge}}\ncloud: null\n{section}:\n  {field}: 50\n", encoding="utf-8")
    variable = f"SPECDEC_{section.upper()}__{field.upper()}"
    for give, place in (
        (lambda: parse_setting(f"{name}=50"), name),
        (lambda: load_config("mini", flags={name: 50}, environ={}), name),
        (lambda: load_config("mini", environ={variable: "50"}), variable),
        (lambda: load_config(file, environ={}), f"my.yaml:3: there is no setting {section}"),
    ):
        with pytest.raises(ConfigError, match="any more") as caught:
            give()  # type: ignore[no-untyped-call]
        assert place in caught.value.message
        assert "specdec_cli.serve.relay" in (caught.value.hint or "")


@pytest.mark.parametrize(("name", "value", "instead"), FORMER)
def test_a_removed_value_names_another(name: str, value: str, instead: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} must be .*not '{value}'") as caught:
        load_config("mini", flags={name: value}, environ={})
    assert instead in (caught.value.hint or "")
