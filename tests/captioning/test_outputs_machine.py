"""Any order of changes and runs: every recording has one caption, nothing of others changes, nothing is made again."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from specdec_cli.errors import ConfigError, TranscriptError
from tests.captioning.box import EXPORTS, OTHERS, OUTPUT
from tests.captioning.disk import Killed
from tests.captioning.outputs_checks import CheckedOutputs, key_of
from tests.captioning.outputs_model import Part
from tests.captioning.stand_in import SOUNDS
from tests.tiers import slow

NAMES = st.sampled_from(["a.wav", "b.wav", "c.wav"])
CONTENTS = st.sampled_from(sorted(SOUNDS))
PARTS: list[Part] = [None, (0, 1), (1, 2), (0, 2), (1, 3)]


def profile(examples: int, steps: int) -> settings:
    """So many examples of so many steps, the same each time. Many of them also find the shortest that fails, slowly."""
    return settings(
        max_examples=examples, stateful_step_count=steps, derandomize=True, database=None, deadline=None,
        report_multiple_bugs=False,
        phases=[Phase.generate, *[Phase.shrink] * (examples > 99)], suppress_health_check=list(HealthCheck),
    )  # fmt: skip


class Outputs(CheckedOutputs):
    """A user who changes recordings, settings and files, and runs commands that end in any way."""

    @initialize(rows=st.booleans(), content=CONTENTS, cut=st.booleans())
    def begin(self, rows: bool, content: str, cut: bool) -> None:
        for name, held in (("a.wav", "dora"), ("b.wav", "ann"), ("c.wav", content)):
            self.put(name, held)
        if rows:
            self.model.rows = {}
            self.name_a_part("1", "a.wav", (0, 2))
            self.name_a_part("2", "b.wav", None)
        self.set_up(5, cut)
        self.run()

    @rule(name=NAMES, content=CONTENTS)
    def put(self, name: str, content: str) -> None:
        """Adds a recording, changes it (also to one of equal length), breaks or mends it."""
        self.box.put(name, content)
        self.model.sounds[name] = content

    @precondition(lambda self: len(self.model.sounds) > 1)
    @rule(data=st.data(), to=NAMES)
    def move(self, data: st.DataObject, to: str) -> None:
        """Renames a recording, or deletes it if there is one of that name."""
        name = data.draw(st.sampled_from(sorted(self.model.sounds)))
        content, path = self.model.sounds.pop(name), self.box.folder / "d" / name
        path.unlink()
        if to not in self.model.sounds:
            self.put(to, content)
        self.run()

    @precondition(lambda self: self.model.rows is not None)
    @rule(id_=st.sampled_from("12"), name=NAMES, part=st.sampled_from(PARTS))
    def name_a_part(self, id_: str, name: str, part: Part) -> None:
        """Adds or changes a row of the table of recordings."""
        assert self.model.rows is not None
        self.model.rows[id_] = name, part
        rows = [f"{each},d/{of},{to[0] / 5},{to[1] / 5}" if to else f"{each},d/{of},,"
                for each, (of, to) in self.model.rows.items()]  # fmt: skip
        (self.box.folder / "m.csv").write_text("\n".join(["id,file,start,end", *rows]))
        self.mine["m.csv"] = (self.box.folder / "m.csv").read_bytes()

    @rule(k=st.sampled_from([5, 7]), cut=st.booleans())
    def set_up(self, k: int, cut: bool) -> None:
        """Edits settings."""
        self.model.settings = k, cut

    @rule(name=st.sampled_from(["a.srt", "b.srt", "c.srt", "o.csv"]), deleted=st.booleans())
    def edit_an_export(self, name: str, deleted: bool) -> None:
        """Edits or deletes an export, or puts a file where one will be."""
        path, name = self.box.folder / EXPORTS / name, f"{EXPORTS}/{name}"
        self.orphans.discard(name)
        self.mine.pop(name, None)
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        if not deleted:
            self.edits += 1
            path.write_text(f"mine {self.edits}")
            self.mine[name] = path.read_bytes()

    @rule(how=st.sampled_from(["lost", "a link", "mended"]), content=st.sampled_from(["ann", "bob"]))
    def change_the_list(self, how: str, content: str) -> None:
        """Loses the list of what specdec wrote, or puts a link in its place, which is not to be trusted."""
        state, copy = self.box.state, self.box.folder / "written elsewhere"
        if how == "a link":
            if not self.trusted or not state.is_file():
                return
            copy.unlink(missing_ok=True)
            state.rename(copy)
            state.symlink_to(copy)
            self.mine[copy.name] = copy.read_bytes()
        elif how == "mended" and self.trusted:
            return
        else:
            state.unlink(missing_ok=True)
        self.trusted = how != "a link"
        self._orphan()
        self.put("b.wav", content)
        self.run()

    @rule(
        at=st.integers(0, 3), torn=st.integers(0, 99), end=st.sampled_from(["killed", "interrupted"]), name=NAMES,
        content=st.sampled_from(["dora", "ann", "bob"]), overwrite=st.booleans(),
    )  # fmt: skip
    def end_early(self, at: int, torn: int, end: str, name: str, content: str, overwrite: bool) -> None:
        """See `run`; there is something to caption."""
        self.put(name, content)
        self.run(at=at, torn=torn, end=end, overwrite=overwrite)

    @rule()
    def go_on(self) -> None:
        """The same command again."""
        self.run()

    @rule(
        command=st.sampled_from(["batch", "caption"]), overwrite=st.booleans(), limit=st.sampled_from([None, 1]),
        fails=st.sampled_from([None, "ann", "bob"]),
    )  # fmt: skip
    def run(
        self, command: str = "batch", end: str = "whole", at: int = 0, torn: int = 0, overwrite: bool = False,
        limit: int | None = None, fails: str | None = None,
    ) -> None:  # fmt: skip
        """Runs over all recordings. It ends as a whole, or after the caption number `at`; then its last line may be
        half there (`torn` percent). 0: when a model is given the first piece.
        """
        model, before, known = self.model, self.box.contents(), self.model.known
        if model.rows is None and not model.sounds:
            return
        flags = ["--overwrite"] * overwrite + ([] if limit is None else [f"--limit={limit}"])
        clips = dict(list(model.clips.items())[:limit])
        failed = set() if overwrite else self._failed_since()
        refused = not overwrite and model.made_with not in (None, model.settings)
        if overwrite and any(SOUNDS[model.sounds[name]] for name, _ in clips if name in model.sounds):
            model.known = {}  # else no recording can be opened, and nothing is written
        elif not refused and not overwrite:
            model.follow(self._lined(), failed)
        missing = [] if refused else model.missing(clips, failed)
        good = [asked for asked in missing if not model.fails(asked, fails, clips)]
        stop = end if end != "whole" and missing and at <= len(good) else None
        kept = good[:at] if stop else good
        if overwrite and stop and not at and missing[0][:2] == next(iter(clips)):
            model.known = known  # nothing was written in its place
        for asked in kept:
            model.took(asked, clips)

        ended = self._run(command, flags, stop=stop, at=at, fails=fails)
        assert ended.asked == (missing[: missing.index(kept[-1]) + 1 if kept else 1] if stop else missing)
        self.litter = set()
        if refused:
            assert isinstance(ended.error, ConfigError), ended
            assert "made with other settings" in ended.error.message
            assert "--overwrite" in (ended.error.hint or "")
            assert self.box.contents()[OUTPUT] == before[OUTPUT]
        else:
            assert isinstance(ended.error, KeyboardInterrupt | Killed) if stop else ended.error is None, ended
            if self.box.lines() and self.box.contents()[OUTPUT] != before.get(OUTPUT):
                model.made_with = model.settings
            self.tidy = stop is None
            self.captioned_rows = deepcopy(model.rows)
        if stop == "killed":
            self.litter = {
                name for name in self.box.contents() if name.startswith(".specdec-") and name.endswith(".lock")
            }
            self._tear(torn if kept else 0)
        else:
            self._check_exports(ended, overwrite)
        self._check_output()

    @rule(
        command=st.sampled_from(["batch", "caption"]), name=NAMES, other=NAMES,
        content=st.sampled_from(["ann", "dora", "noise"]), named=st.booleans(),
    )  # fmt: skip
    def retry(self, command: str, name: str, other: str, content: str, named: bool) -> None:
        """Runs over what failed before, and over nothing else."""
        self.put(name, "dora")
        self.run(fails="dora")
        self.put(other, content)
        if self.model.made_with != self.model.settings:
            return
        lines, model = self.box.lines(), self.model
        count = Counter(key_of(line) for line in lines)
        failed = {key_of(line) for line in lines if "error" in line or count[key_of(line)] < (line.get("pieces") or 1)}
        if self.captioned_rows != model.rows or not failed <= model.clips.keys():
            return  # it would mean the parts that the table had
        since = self._failed_since()
        if named:
            model.follow(self._lined(), since)
        clips = model.clips if named else self._lined()
        missing = model.missing({key: model.clips[key] for key in clips if key in failed}, since)
        for asked in missing:
            model.took(asked, model.clips)
        ended = self._run(command, ["--retry-failed"], exports=False, named=named)
        assert ended.error is None
        assert list(ended.asked) == missing
        self._check_output()

    @rule(how=st.sampled_from(["ends in notes", "a damaged line", "notes"]))
    def run_over_a_damaged_output(self, how: str) -> None:
        """A file that somebody edited is refused and stays; then it is mended."""
        output = self.box.output
        held = output.read_bytes() if output.is_file() else None
        lines = (held or b"").splitlines(keepends=True)
        if how != "notes" and (not lines or lines[-1][-1:] != b"\n"):
            return
        damaged = {"ends in notes": b"".join([*lines, b"notes"]), "notes": b"notes\n",
                   "a damaged line": b"".join([b'{"schema":1,"file":1}\n' if n == len(lines) // 2 else line
                                               for n, line in enumerate(lines)])}[how]  # fmt: skip
        output.write_bytes(damaged)
        before = self._lasting()
        ended = self._run("batch", [], exports=False)
        assert isinstance(ended.error, TranscriptError | ConfigError), ended
        assert ended.error.hint
        assert (self._lasting(), ended.asked) == (before, [])
        output.unlink() if held is None else output.write_bytes(held)

    @rule(name=st.sampled_from([*OTHERS, "d/a.wav", "d", "no/where.jsonl", "-", "link.jsonl"]), overwrite=st.booleans())
    def run_to_another_file(self, name: str, overwrite: bool) -> None:
        """Files of others are replaced by consent alone, and what is read never."""
        if overwrite and (name in OTHERS or name == "link.jsonl"):
            return
        link = self.box.folder / "link.jsonl"
        if name == link.name:
            link.hardlink_to(self.box.folder / "d" / "notes.txt")
        before = self._lasting()
        ended = self._run("batch", ["--overwrite"] * overwrite, output=name, exports=False)
        assert isinstance(ended.error, TranscriptError | ConfigError), ended
        assert (self._lasting(), ended.asked) == (before, [])
        link.unlink(missing_ok=True)


@pytest.mark.parametrize(("examples", "steps"), [(16, 20), slow((60, 40))])
def test_outputs_hold_what_was_captioned_last_whatever_happens(examples: int, steps: int) -> None:
    run_state_machine_as_test(Outputs, settings=profile(examples, steps))
