"""What is checked behind each run of a user, and what is known of files that are not specdec's."""

from __future__ import annotations

import csv
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis.stateful import RuleBasedStateMachine, invariant

from specdec_cli.captioning.tasks import Outcome
from tests.captioning.box import EXPORTS, OTHERS, OUTPUT, Box, Ended
from tests.captioning.disk import Killed
from tests.captioning.outputs_model import Key, Known, Model, Part, pieces
from tests.captioning.stand_in import SOUNDS, digest, sound

CAPTION = re.compile(r"[0-9a-f]{8} from [0-9.]+ s with \w+\.")
FOREIGN = "specdec did not write it, or it was edited since"
CONTENT_OF = {digest(name): name for name in SOUNDS}


class CheckedOutputs(RuleBasedStateMachine):
    """The folder, the model of what its outputs must hold, and the comparison of the two.

    Attributes:
        mine: files that are not specdec's, and exports that were edited.
        orphans: those of them that specdec wrote without knowing it any more.
        litter: what runs left that were killed.
        trusted: whether the list of what specdec wrote is its own.
        captioned_rows: those of the last run.
        tidy: whether the last run came to its end, so that no line is left that others replace.
    """

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.place = pytest.MonkeyPatch(), tempfile.TemporaryDirectory()
        self.box = Box(Path(self.place.name).resolve() / "box", self.patch)
        self.model = Model()
        self.mine: dict[str, bytes] = {name: text.encode() for name, text in OTHERS.items()}
        self.orphans: set[str] = set()
        self.litter: set[str] = set()
        self.trusted = self.tidy = True
        self.edits = 0
        self.captioned_rows: dict[str, tuple[str, Part]] | None = None

    def teardown(self) -> None:
        self.patch.undo()
        self.place.cleanup()

    @invariant()
    def nothing_of_others_is_touched(self) -> None:
        own = {OUTPUT, *(f"{EXPORTS}/{name}" for name in ("a.srt", "b.srt", "c.srt", "o.csv"))}
        mine = self.mine | {f"d/{name}": sound(content) for name, content in self.model.sounds.items()}
        found = self.box.contents()
        assert {name: found.get(name) for name in mine} == mine
        assert found.keys() - mine.keys() - own - self.litter - {"state/specdec/written"} == set()

    def _run(self, command: str, flags: list[str], *, stop: str | None = None, at: int = 0, fails: str | None = None,
             output: str = OUTPUT, exports: bool = True, named: bool = True) -> Ended:  # fmt: skip
        (k, cut), captioned = self.model.settings, 0

        def after(outcome: Outcome) -> None:
            nonlocal captioned
            captioned += outcome.line is not None and outcome.line.good
            if stop is not None and captioned == at > 0:
                end()

        def end() -> None:
            self.box.disk.dead = stop == "killed"
            raise Killed if stop == "killed" else KeyboardInterrupt

        flags = [*flags, "-k", str(k), f"--output={output}", *(["--set=audio.segment=0.2"] if cut else [])]
        flags += ["--export=csv,srt", f"--export-dir={EXPORTS}"] if exports else []
        if named:
            flags += ["--", "d"] if self.model.rows is None else ["--manifest=m.csv"]
        failing = [] if fails is None else [digest(fails)]
        before = end if stop is not None and at == 0 else lambda: None
        return self.box.run(*flags, command=command, before=before, after=after, fails=failing)

    def _lined(self) -> list[Key]:
        """The clips that have lines, in the order of the output."""
        return list(dict.fromkeys(key_of(line) for line in self.box.lines()))

    def _failed_since(self) -> set[Key]:
        """The recordings that have a caption as a whole, and a failure behind it."""
        last: dict[Key, bool] = {}
        for line in self.box.lines():
            if line.get("caption"):
                last[key_of(line)] = False
            elif key_of(line) in last:
                last[key_of(line)] = True
        whole = {key_of(line) for line in self.box.lines() if line.get("caption") and line.get("start_s") is None}
        return {key for key, failed in last.items() if failed and key in whole}

    def _lasting(self) -> dict[str, bytes]:
        """What is there, without what a run left that was killed, which the next one may take away."""
        return {name: content for name, content in self.box.contents().items() if name not in self.litter}

    def _tear(self, percent: int) -> None:
        """Leaves a part of the last line, as a power cut does, unless it is the first, which is there whole or not."""
        lines = self.box.output.read_bytes().splitlines(keepends=True)
        if percent and len(lines) > 1:
            length = 1 + (len(lines[-1]) - 2) * percent // 100  # of the whole line all but the end of it at most
            self.box.output.write_bytes(b"".join(lines[:-1]) + lines[-1][: min(length, len(lines[-1]) - 2)])
            self.model.known = self.model.before

    def _orphan(self) -> None:
        """Nobody knows any more that specdec wrote the exports that are there."""
        for path in (self.box.folder / EXPORTS).glob("*"):
            if (name := f"{EXPORTS}/{path.name}") not in self.mine:
                self.mine[name] = path.read_bytes()
                self.orphans.add(name)

    def _check_output(self) -> None:
        """Every clip has the captions of the model, each once, and one line says what it is as a whole."""
        held, lines = self.box.output, self.box.lines()
        found: dict[Key, list[dict[str, Any]]] = {}
        for line in lines:
            found.setdefault(key_of(line), []).append(line)
        captions = {key: sorted((line.get("start_s") or 0.0, line["caption"]) for line in of if line.get("caption"))
                    for key, of in found.items()}  # fmt: skip
        for key, known in self.model.known.items():
            assert set(known.captions.items()) <= set(captions.get(key, [])), key
        if not self.tidy:
            return
        assert not held.exists() or held.read_bytes()[-1:] in (b"\n", b"")
        assert {key: of for key, of in captions.items() if of} == {
            key: sorted(known.captions.items()) for key, known in self.model.known.items()
        }
        for key, of in found.items():
            wholes = [line["whole"]["pieces"] for line in of if line.get("whole")]
            known = self.model.known.get(key)
            if known is not None and len(known.captions) > 1 and self._complete(known):
                assert wholes == [len(known.captions)], key
            assert len(wholes) < 2, key

    def _complete(self, known: Known) -> bool:
        """Whether every piece has a caption that can have one."""
        assert self.model.made_with is not None
        (content, part), cut = known.source, self.model.made_with[1]
        return set(pieces(CONTENT_OF[content], part, cut)) == set(known.captions)

    def _check_exports(self, ended: Ended, overwrite: bool) -> None:
        """Exports have the captions of the output, but for files of others, which are named."""
        now, model = self.box.contents(), self.model
        expected = {f"{EXPORTS}/{key[0][:-4]}.srt": sorted(model.of(key[0])) for key in model.known}
        if self.box.lines():
            expected[f"{EXPORTS}/o.csv"] = model.captions
        for name, captions in expected.items():
            if f"{name} exists, and {FOREIGN}" in ended.said:
                assert name in self.mine, name
                assert not overwrite, name
                continue
            if name in self.mine and not overwrite:  # it is what specdec would write
                assert name in self.orphans, name
                assert now[name] == self.mine[name]
            assert sorted(_captions(name, now[name].decode("utf-8-sig"))) == captions
            self.mine.pop(name, None)
            self.orphans.discard(name)
        if not self.trusted:
            self._orphan()


def key_of(line: dict[str, Any]) -> Key:
    return line["file"].rpartition("/")[2], line.get("id")


def _captions(name: str, text: str) -> list[str] | set[str]:
    """The captions in an export."""
    if name.endswith(".csv"):
        return [row["caption"] for row in csv.DictReader(text.splitlines()) if row["caption"]]
    return set(CAPTION.findall(text))
