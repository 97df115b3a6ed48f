"""What is generated from the code is what the code would generate."""

from __future__ import annotations

from pathlib import Path

import pytest

from specdec_cli.config import SETTINGS
from tools.reference import PAGES, ROOT


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_generated_files_are_current(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert path.read_text("utf-8") == PAGES[path](), "run: python -m tools.reference"


def test_every_setting_and_its_variable_are_in_the_page() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    for name in SETTINGS:
        assert f"| `{name}` |" in page
        assert f"`SPECDEC_{name.upper().replace('.', '__')}`" in page
