"""Plants mistakes one by one in a copy of the repository, and says which ones the fast tests do not find.

    python -m tools.mutate [--only NAME]

Ends with 1 if a mistake survives that is not accepted, and with 2 if tests fail without any.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
LONGEST_S: Final = 300.0  # of the tests of a mistake; one that makes them hang is found


class Mistake(NamedTuple):
    """In a file below specdec_cli `text`, which it has once, becomes `instead`; fast ones of `tests` should fail."""

    name: str
    path: str
    tests: tuple[str, ...]
    text: str
    instead: str
    accepted: str  # why no test finds it; empty: one has to


def mistakes() -> list[Mistake]:
    """The table, `mistakes.txt`."""
    found = []
    for block in Path(__file__).with_name("mistakes.txt").read_text("utf-8").split("\n\n"):
        head, *lines = block.strip().split("\n")
        if head.count(" | ") == 2:
            name, path, tests = head.split(" | ")
            parts = ("\n".join(line[2:] for line in lines if line[0] == sign) for sign in "-+=")
            found.append(Mistake(name, path, tuple(f"tests/{test}" for test in tests.split()), *parts))
    return found


def copied(folder: Path) -> Path:
    """A copy of what git tracks, as it is in the working tree."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in listed.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def fails(tests: Iterable[str], copy: Path) -> str:
    """What pytest writes if tests fail or hang in the copy; empty if they pass."""
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-x", "-p", "no:cacheprovider", *tests]
    try:
        ended = subprocess.run(command, cwd=copy, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        return f"no end within {LONGEST_S:g} s"
    if ended.returncode not in (0, 1, 2):  # 2: a module cannot be imported
        raise RuntimeError(f"{' '.join(command)} ended with {ended.returncode}\n{ended.stdout.decode()}")
    return ended.stdout.decode() if ended.returncode else ""


def found(mistake: Mistake, copy: Path) -> bool:
    """Whether tests fail, or hang, with a mistake in the copy, which is as before afterwards."""
    path = copy / "specdec_cli" / mistake.path
    whole = path.read_text("utf-8")
    assert whole.count(mistake.text) == 1, f"{mistake.path} has the text of {mistake.name!r} not once"
    path.write_text(whole.replace(mistake.text, mistake.instead), "utf-8")
    try:
        return bool(fails(mistake.tests, copy))
    finally:
        path.write_text(whole, "utf-8")


def main() -> int:
    """Tries all mistakes, or some."""
    parser = argparse.ArgumentParser(description="Plants mistakes, and says which ones tests do not find.")
    parser.add_argument("--only", metavar="NAME", default="", help="a mistake by its name, or the beginning of several")
    chosen = [mistake for mistake in mistakes() if mistake.name.startswith(parser.parse_args().only)]
    survivors = 0
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # two versions of a file may have one size and one second
    with tempfile.TemporaryDirectory(prefix="specdec-mistakes-") as folder:
        copy = copied(Path(folder))
        for each in sorted({test for mistake in chosen for test in mistake.tests}):
            if said := fails([each], copy):  # one by one, so that each has the time that it will have
                print(f"{each} fails without any mistake:\n{said}")
                return 2
        for mistake in chosen:
            lives = not found(mistake, copy)
            survivors += lives and not mistake.accepted
            why = f": {mistake.accepted}" if lives and mistake.accepted else ""
            print(f"{'survives' if lives else 'found':9} {mistake.name}{why}", flush=True)
    print(f"{survivors} survive that should not" if survivors else "no mistake survives but those that are accepted")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
