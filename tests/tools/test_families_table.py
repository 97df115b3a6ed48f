"""The page on model families."""

from __future__ import annotations

from pathlib import Path

from tools.families_table import page


def test_the_documentation_is_the_codes_own_table() -> None:
    assert (Path(__file__).parents[2] / "docs" / "families.md").read_text(encoding="utf-8") == page()
