"""Both READMEs show the same commands; what documents link to is there, and so are the options that they name."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from specdec_cli.cli.app import COMMANDS, command_named
from specdec_cli.config import SETTINGS
from tests.mini_pair import captioner

ROOT = Path(__file__).parents[1]
BOTH = ("README.md", "README.zh-CN.md")
DOCUMENTS = sorted(path for folder in (".", "docs", "specdec_cli/serve") for path in (ROOT / folder).glob("*.md"))


def blocks(name: str) -> list[str]:
    return re.findall(r"^```\w*\n.*?^```", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def commands(name: str) -> list[str]:
    return re.findall(r"`specdec [^`]+`", (ROOT / name).read_text(encoding="utf-8"))


def command_lines(page: Path) -> Iterator[list[str]]:
    """The words behind `specdec`, the command first, of each command line that a page shows."""
    text = page.read_text(encoding="utf-8")
    shown = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in shown for line in block.replace("\\\n", " ").splitlines()]
    lines += re.findall("`([^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    for line in lines:
        found = re.search(r"(?:^|[ |/])specdec (?=[a-z])([^|;&]*)", line)
        if found and found[1].split()[0] in COMMANDS:
            yield shlex.split(found[1], comments=True)


def anchors(page: Path) -> set[str]:
    """What a heading is linked by: lower case, hyphens for spaces, no punctuation."""
    headings = re.findall("^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_both_languages_show_the_same_commands():
    english, chinese = map(blocks, BOTH)
    assert english == chinese
    assert {command.strip("`").split()[1] for command in commands(BOTH[0])} >= set(COMMANDS)
    assert set(commands(BOTH[0])) <= set(commands(BOTH[1]))


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda path: path.name)
def test_what_is_linked_is_there(page):
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)]+)\)", prose):
        if "://" in link:
            continue
        name, _, heading = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert not heading or heading in anchors(target), link


def test_pages_that_the_code_names_are_there():
    named = {
        page
        for folder in ("specdec_cli", "tools", "training", "tests")
        for path in (ROOT / folder).rglob("*.py")
        for page in re.findall(r"docs/[\w-]+\.md", path.read_text(encoding="utf-8"))
    }
    assert "docs/gates.md" in named
    assert [page for page in sorted(named) if not (ROOT / page).exists()] == []


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda path: path.name)
def test_options_and_settings_of_command_lines_are_there(page):
    if page.name == "CHANGELOG.md":  # it names what went
        return
    for name, *words in command_lines(page):
        command = command_named(name)
        taken = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
        given = [word.partition("=")[0] for word in words if re.match("--?[a-z]", word)]
        assert name == "config" or set(given) <= taken, (name, words)
        settings = [words[place + 1] for place, word in enumerate(words[:-1]) if word == "--set"]
        assert {setting.partition("=")[0] for setting in settings} <= set(SETTINGS), (name, words)


def test_the_picture_is_of_the_defaults():
    texts = ElementTree.parse(ROOT / "samples/live-view.svg").iter("{http://www.w3.org/2000/svg}text")
    shown = " ".join(" ".join(text.text or "" for text in texts).split())
    now = captioner(prompt__language="en").caption(ROOT / "samples/en_male_pauses.flac")
    assert now.caption is not None
    assert now.caption in shown
    assert f"gate {now.settings['gate']} · threshold {now.settings['threshold']} ·" in shown
    for name in BOTH:
        assert f"`{now.settings['gate']}`" in (ROOT / name).read_text(encoding="utf-8")
