"""The shipped configurations of real models: they load, and name families that exist."""

from pathlib import Path
from typing import Any, get_args

import pytest

from specdec_cli.config import load_config
from specdec_cli.config.fields import FamilyName
from specdec_cli.models import families

ROOT = Path(__file__).parents[2]
PAIRS = {
    "qwen2.5-omni": ("Qwen/Qwen2.5-Omni-3B", "Qwen/Qwen2.5-Omni-7B"),
    "qwen2.5-omni-vllm": ("Qwen/Qwen2.5-Omni-3B", "Qwen/Qwen2.5-Omni-7B"),
    "qwen2.5-omni-vllm-pair": ("Qwen/Qwen2.5-Omni-3B", "Qwen/Qwen2.5-Omni-7B"),
    "moss-audio-vllm-pair": ("OpenMOSS-Team/MOSS-Audio-4B-Instruct", "OpenMOSS-Team/MOSS-Audio-8B-Instruct"),
    "qwen3-omni": ("Qwen/Qwen2.5-Omni-3B", "Qwen/Qwen3-Omni-30B-A3B-Instruct"),
    "gemma4": ("google/gemma-4-E2B-it", "google/gemma-4-E4B-it"),
    "voxtral": ("mistralai/Voxtral-Mini-3B-2507", "mistralai/Voxtral-Small-24B-2507"),
}


@pytest.mark.parametrize("name", PAIRS)
def test_configurations_load(name):
    flags: dict[str, Any] = {"cloud.allow_audio_upload": True} if "vllm" in name else {}
    flags |= {"edge.allow_audio_upload": True} if name.endswith("pair") else {}
    config = load_config(name, flags=flags, environ={}).config
    assert (config.edge.model, config.cloud.model) == PAIRS[name]
    assert config.edge.family == config.cloud.family == "auto"
    assert config.prompt.language == "en"


def test_the_page_of_families_has_them_all():
    page = (ROOT / "docs" / "families.md").read_text(encoding="utf-8")
    for family in families.FAMILIES.values():
        assert f"| `{family.name}` | `{'`, `'.join(family.model_types)}` |" in page
        assert all(f"needs `{package}`" in page for package in family.needs)


def test_families_have_the_names_of_the_settings():
    assert {"auto", *families.FAMILIES} == set(get_args(FamilyName))
    types = [name for family in families.FAMILIES.values() for name in family.model_types]
    assert len(types) == len(set(types))
