"""Commands that pages show with their output print it, but for times, sizes and what a line with `...` leaves out."""

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from tests.cli.harness import COMMAND, environment

SERVED = "http://127.0.0.1:8765"
ROOT = Path(__file__).parents[1]
_TIME = r"\d[\d.,]*(?: (?:min )?\d[\d.,]*)? ?(?:s|ms|min|tokens/s|GiB|GB|MB|threads?|logical cores?)\b"
_ROOM = re.compile(r" {2,}")


def shown(page: Path) -> list[tuple[str, list[str]]]:
    """The commands of a page that stand behind `$`, each with the lines of output under it."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"^```\w*\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        for line in block.splitlines() if block.startswith("$ ") else ():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif line.strip():
                found[-1][1].append(line)
    return found


def plain(line: str) -> str:
    return _ROOM.sub(" ", re.sub(_TIME, "N", line)).strip()


PAGES = {path.stem: shown(path) for path in sorted((ROOT / "docs").glob("*.md"))}


@contextmanager
def a_cloud() -> Iterator[str]:
    """A server of the mini pair's cloud, as the page of remote clouds starts one; gives its address."""
    server = subprocess.Popen([*COMMAND, "serve", "--port", "0"], stderr=subprocess.PIPE, env=environment())
    assert server.stderr is not None
    try:
        events = map(json.loads, server.stderr)
        yield next(event["url"] for event in events if event["event"] == "ready")
    finally:
        server.terminate()
        server.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("page", [name for name, commands in PAGES.items() if commands])
def test_a_page_shows_what_its_commands_print(page, tmp_path):
    shutil.copytree(ROOT / "samples", tmp_path / "samples")
    given = environment(COLUMNS="120", LC_ALL="C.UTF-8")
    with a_cloud() if page == "remote" else nullcontext(SERVED) as address:
        for command, lines in PAGES[page]:
            words = shlex.split(command.replace(SERVED, address), comments=True)
            if words[0] == "cat":
                printed = (tmp_path / words[1]).read_text(encoding="utf-8")
            else:
                done = subprocess.run([*COMMAND, *words[1:]], cwd=tmp_path, env=given, capture_output=True, text=True)
                assert done.returncode == 0, done.stderr
                printed = done.stdout + done.stderr
            left = iter(plain(line) for line in printed.replace(address, SERVED).splitlines())
            for line in lines:
                pattern = ".*".join(map(re.escape, plain(line).split("...")))
                assert any(re.fullmatch(pattern, one) for one in left), f"{command}: {line}\n{printed}"
