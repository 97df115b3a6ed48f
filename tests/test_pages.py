"""Commands that pages show with their output print it, but for times, sizes and what `...` leaves out of a line."""

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.cli.harness import COMMAND, Fork, environment

SERVED = "http://127.0.0.1:8765"
OF_THE_PAIR = ("batch", "caption", "compare", "export", "review")
"""Commands that run as forks, which have the shipped pair already; those that name a server load theirs."""
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


def variables() -> dict[str, str]:
    return environment(COLUMNS="120", LC_ALL="C.UTF-8")


@contextmanager
def a_server(given: Sequence[str], cwd: Path) -> Iterator[tuple[str, str]]:
    """A server of a page, at a free port; gives its address and what it prints until it is ready."""
    words = [*COMMAND, *given, "--port", "0"]
    server = subprocess.Popen(words, cwd=cwd, stderr=subprocess.PIPE, text=True, env=variables())
    assert server.stderr is not None
    try:
        printed = [server.stderr.readline()]
        while json.loads(printed[-1])["event"] != "ready":
            printed.append(server.stderr.readline())
        yield json.loads(printed[-1])["url"], "".join(printed)
    finally:
        server.terminate()
        server.communicate()


def output(command: str, cwd: Path) -> str:
    """What a command prints on stdout, then on stderr."""
    name, *words = shlex.split(command, comments=True)
    if name == "specdec" and words[0] in OF_THE_PAIR and "http://" not in command:
        ended = Fork(words, folder=cwd, variables=variables()).wait()
        assert ended.code == 0, ended.err
        return ended.out + ended.err
    run = {"specdec": [*COMMAND, *words], "python": [COMMAND[0], *words]}.get(name, ["sh", "-c", command])
    done = subprocess.run(run, cwd=cwd, env=variables(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("page", [name for name, commands in PAGES.items() if commands])
def test_a_page_shows_what_its_commands_print(page, tmp_path):
    shutil.copytree(ROOT / "samples", tmp_path / "samples")
    address = SERVED
    with ExitStack() as servers:
        for command, lines in PAGES[page]:
            file = tmp_path / command.removeprefix("cat ")
            if command.startswith("cat ") and not file.exists():  # a file that the reader has, for the commands below
                file.write_text("\n".join((*lines, "")), encoding="utf-8")
            if command.endswith("&"):
                server = a_server(shlex.split(command)[1:-1], tmp_path)
                address, printed = servers.enter_context(server)
            else:
                printed = output(command.replace(SERVED, address), tmp_path)
            left = iter(plain(line) for line in printed.replace(address, SERVED).splitlines())
            for line in lines:
                pattern = ".*".join(map(re.escape, plain(line).split("...")))
                assert any(re.fullmatch(pattern, one) for one in left), f"{command}: {line}\n{printed}"
