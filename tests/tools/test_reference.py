"""What is generated from the code is what the code would generate."""

import pytest

from tools.reference import PAGES


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_generated_files_are_current(path, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert path.read_text("utf-8") == PAGES[path](), "run: python -m tools.reference"
