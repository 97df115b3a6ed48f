"""The first, second ... call that changes files fails: what was there is whole, the error helps, and a run goes on."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from specdec_cli.errors import SpecdecError
from tests.captioning.box import EXPORTS, OTHERS, OUTPUT, Box, Ended
from tests.captioning.disk import SHORT, Killed
from tests.captioning.outputs_checks import CAPTION
from tests.tiers import few

Fault = Callable[[int], BaseException | None]
Captions = dict[str, set[tuple[float, str]]]
"""Name of a recording -> its captions, by their start."""

RENAMED = {"d.wav": "e.wav"}
STARTS = ["resumed", "new", "overwritten", "torn"]
KINDS: dict[str, Callable[[int], Fault]] = {
    "half of a write": lambda n: lambda at: OSError(SHORT, "") if at == n else None,
    "full": lambda n: lambda at: OSError(errno.ENOSPC, "No space left on device") if at == n else None,
    "broken": lambda n: lambda at: OSError(errno.EIO, "Input/output error") if at == n else None,
    "full from then on": lambda n: lambda at: OSError(errno.ENOSPC, "No space left on device") if at >= n else None,
    "killed": lambda n: lambda at: Killed() if at == n else None,
}
ROWS = [(start, kind, 1) for start in STARTS for kind in KINDS if kind != "broken" or start == "resumed"]
"""All calls. A disk that is broken once does as one that is full once."""


def run(box: Box, *more: str) -> Ended:
    """Captions and exports."""
    exports = ("--export=csv,srt", f"--export-dir={EXPORTS}")
    return box.run("--set=audio.segment=0.2", f"--output={OUTPUT}", *exports, *more, "--", "d")


def begin(box: Box, start: str) -> list[str]:
    """What is there before: an output behind which recordings were changed and renamed. Returns further options."""
    for name, content in (("a.wav", "ann"), ("b.wav", "dora"), ("c.wav", "noise"), ("d.wav", "ann")):
        box.put(name, content)
    if start != "new":
        run(box)
    for name, content in (("b.wav", "bob"), ("c.wav", "carl")):
        box.put(name, content)
    (box.folder / "d" / "d.wav").rename(box.folder / "d" / RENAMED["d.wav"])
    if start == "torn":
        box.output.write_bytes(box.output.read_bytes()[:-40])
    return ["--overwrite"] if start == "overwritten" else []


def captions(box: Box) -> Captions:
    """The captions in the output; those of an earlier content too, until the output is tidied."""
    found: Captions = {}
    for line in box.lines():
        if line.get("caption"):
            name = line["file"][2:]
            found.setdefault(RENAMED.get(name, name), set()).add((line.get("start_s") or 0.0, line["caption"]))
    return found


def restore(box: Box, kept: Path) -> None:
    """Puts the folder back to what it was."""
    for path in (*box.folder.iterdir(), *kept.iterdir()):
        if path.is_dir():
            shutil.rmtree(box.folder / path.name, ignore_errors=True)
        elif path.parent == box.folder:
            path.unlink()
    shutil.copytree(kept, box.folder, dirs_exist_ok=True)


@pytest.mark.parametrize(("start", "kind", "every"), few([("resumed", "half of a write", 3), *ROWS]))
def test_any_call_may_fail(tmp_path, monkeypatch, start, kind, every):
    box, kept = Box(tmp_path / "box", monkeypatch), tmp_path / "kept"
    options = begin(box, start)
    shutil.copytree(box.folder, kept)
    old, exported = captions(box), box.contents()
    whole = run(box, *options)
    assert whole.code == 0
    new, written = captions(box), box.contents()
    calls = len(box.disk.calls)
    assert calls > 40
    for n in range(1, calls + 1, every):
        restore(box, kept)
        box.disk.fault = KINDS[kind](n)
        ended = run(box, *options)
        box.disk.fault = lambda _: None
        name = box.disk.calls[n - 1] if n <= len(box.disk.calls) else ""
        told = f"{n}: {name}, {ended}"
        left, found = box.contents(), captions(box)
        assert helps(ended) or (ended.code == 0 and found == new), told
        for file, held in found.items():
            assert held <= old.get(file, set()) | new[file], told
        if not options:
            for file, held in old.items():
                assert held <= found[file] or found[file] & new[file], told
        lasting = kind in ("full from then on", "killed")  # nothing can be mended in this run
        assert lasting or left.get(OUTPUT, b"\n")[-1:] in (b"\n", exported.get(OUTPUT, b"")[-1:]), told
        litter = [each for each in left if os.path.basename(each).startswith(".specdec-") and each not in OTHERS]
        assert lasting or name == "unlink" or litter == [], told
        for file in [*OTHERS, *(each for each in exported if each.endswith(".wav"))]:
            assert left[file] == exported[file], told
        for file in written:
            if file.startswith(EXPORTS):
                assert left.get(file, b"\n")[-1:] == b"\n", told
                texts = set(CAPTION.findall(left.get(file, b"").decode()))
                assert texts <= {text for held in (*old.values(), *new.values()) for _, text in held}, told
        again = run(box, *([] if found else options))
        assert again.code == 0, (told, again)
        assert captions(box) == new, (told, again)
        assert not [file for file in box.contents() if file.endswith((".lock", ".draft"))], told
        asked = {file: {start for _, id_, start in again.asked if _ == file} for file in new}
        assert asked == {file: {at for at, _ in held - found.get(file, set())} for file, held in new.items()}, told
        own = [file for file in written if file.startswith(EXPORTS) and file != f"{EXPORTS}/d.srt"]  # which is stale
        assert {file: box.contents()[file] for file in own} == {file: written[file] for file in own}, told


def helps(ended: Ended) -> bool:
    """Whether it says what failed and what to do."""
    if isinstance(ended.error, SpecdecError):
        return bool(ended.error.hint)
    return isinstance(ended.error, Killed) or (ended.code == 1 and "error: " in ended.said and "hint: " in ended.said)
