"""Both READMEs show the same commands, and every document links to files and headings that are there."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.mini_pair import captioner

ROOT = Path(__file__).parents[1]
BOTH = ("README.md", "README.zh-CN.md")
DOCUMENTS = sorted(path for folder in (".", "docs", "specdec_cli/serve") for path in (ROOT / folder).glob("*.md"))


def blocks(name: str) -> list[str]:
    return re.findall(r"^```\w*\n.*?^```", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def commands(name: str) -> list[str]:
    return re.findall(r"`specdec [^`]+`", (ROOT / name).read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """What a heading is linked by: lower case, hyphens for spaces, no punctuation."""
    headings = re.findall("^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_both_languages_show_the_same_commands():
    english, chinese = map(blocks, BOTH)
    assert english == chinese
    assert len(commands(BOTH[0])) >= 12
    assert set(commands(BOTH[0])) <= set(commands(BOTH[1]))


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda path: path.name)
def test_what_is_linked_is_there(page):
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        name, _, heading = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert not heading or heading in anchors(target), link


def test_the_picture_is_of_the_defaults():
    texts = ElementTree.parse(ROOT / "samples/live-view.svg").iter("{http://www.w3.org/2000/svg}text")
    shown = " ".join(" ".join(text.text or "" for text in texts).split())
    now = captioner(prompt__language="en").caption(ROOT / "samples/en_male_pauses.flac")
    assert now.caption is not None
    assert now.caption in shown
    assert f"gate {now.settings['gate']} · threshold {now.settings['threshold']} ·" in shown
    for name in BOTH:
        assert f"`{now.settings['gate']}`" in (ROOT / name).read_text(encoding="utf-8")
