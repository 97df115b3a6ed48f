"""The shipped configurations of real models load, and settings, code and page name the same families."""

from pathlib import Path
from typing import Any

import pytest

from specdec_cli.config import load_config
from specdec_cli.config.locate import shipped_configs
from specdec_cli.models import families

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", sorted({*shipped_configs()} - {"mini"}))
def test_configurations_load(name):
    remote = ("edge", "cloud") if name.endswith("pair") else ("cloud",) if name.endswith("vllm") else ()
    flags: dict[str, Any] = {"remote.allow_audio_upload": True}
    config = load_config(name, flags=flags, environ={}).config
    assert [role for role, model in config.models.items() if model.url is not None] == list(remote)
    assert config.prompt.language == "en"


def test_code_and_page_name_the_same_families():
    types = [name for family in families.FAMILIES.values() for name in family.model_types]
    assert len(types) == len(set(types))
    page = (ROOT / "docs" / "families.md").read_text(encoding="utf-8")
    for family in families.FAMILIES.values():
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{family.name}` | ")]
        assert f" | `{'`, `'.join(family.model_types)}` | " in row
        assert all(f"`{package}`" in row for package in family.needs)
