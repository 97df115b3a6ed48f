"""Both READMEs show the same commands, and link to files that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BOTH = ("README.md", "README.zh-CN.md")


def blocks(name: str) -> list[str]:
    return re.findall(r"^```\w*\n.*?^```", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def commands(name: str) -> list[str]:
    return re.findall(r"`specdec [^`]+`", (ROOT / name).read_text(encoding="utf-8"))


def test_both_languages_show_the_same_commands() -> None:
    english, chinese = map(blocks, BOTH)
    assert english == chinese
    table = [command for command in commands(BOTH[0]) if command in commands(BOTH[1])]
    assert len(table) >= 12


@pytest.mark.parametrize("name", BOTH)
def test_what_is_linked_is_there(name: str) -> None:
    links = re.findall(r"\]\(([^)#]+)", (ROOT / name).read_text(encoding="utf-8"))
    assert len(links) > 20
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []
