"""Who is in an output, which lines stand, and what a refusal leaves as it was."""

import os
from contextlib import nullcontext
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest

from specdec_cli.captioning.output_file import Check, Output, accepting
from specdec_cli.config import load_config
from specdec_cli.errors import AudioNotFoundError, ConfigError, TranscriptError
from specdec_cli.inputs.recording import InputFile, Key
from specdec_cli.labels import Lexicon
from specdec_cli.transcript import Transcript
from specdec_cli.transcript.lines import Line
from specdec_cli.transcript.records import ModelInfo, Models
from specdec_cli.transcript.shared import SharedFields, loaded_changes
from tests.support.transcripts import SETTINGS, failed_line, good_line, read_transcripts, write


def accept(_: Line) -> tuple[()]:
    return ()


def files(path: Path) -> list[str]:
    return [Path(transcript.file).name for transcript in read_transcripts(path)]


def part(number: int, caption: str | None = "A calm voice.", pieces: int = 3, sha256: str = "0" * 64) -> Transcript:
    """A piece of a long recording; without a caption it failed."""
    where: dict[str, object] = {"start_s": float(number), "end_s": number + 1.0, "piece": number, "pieces": pieces}
    if caption is None:
        return failed_line("/long.wav", sha256=sha256).model_copy(update=where)
    return good_line("/long.wav", caption, **where, sha256=sha256)


def test_what_failed_is_tried_again_as_its_manifest_named_it(tmp_path):
    named: dict[str, object] = {"id": "u1", "end_s": 2.0, "speaker": "ann", "text": "hi", "channel": 2}
    line = failed_line("/a.wav", start_s=1.0).model_copy(update=named)
    cut = failed_line("/b.wav").model_copy(update={"speaker": "bob", "settings": {"segment": "turns.rttm 1"}})
    each = failed_line("/c.wav").model_copy(update={"channel": 2, "settings": {"channel": "each"}})
    with Output(write(tmp_path / "o.jsonl", line, cut, each), accept) as stored:
        found = {item.path: (item.id, item.start_s, item.end_s, item.speaker, item.text, item.channel)
                 for item in stored.failed()}  # fmt: skip
    nothing = (None,) * 6
    assert found == {"/a.wav": ("u1", 1.0, 2.0, "ann", "hi", 1), "/b.wav": nothing, "/c.wav": nothing}


STANDING: dict[str, tuple[list[Transcript], list[str | None], bool]] = {
    "the last of a clip": ([good_line("/a.wav", "x"), good_line("/a.wav", "y")], ["y"], True),
    "a caption replaces a failure": ([failed_line("/a.wav"), good_line("/a.wav", "y")], ["y"], True),
    "a failure replaces no caption": ([good_line("/a.wav", "x"), failed_line("/a.wav")], ["x", None], False),
    "the last of failures": ([failed_line("/a.wav"), failed_line("/a.wav", sha256="1" * 64)], [None], False),
    "pieces in any order": ([part(2, "c"), part(0, "a"), part(1, "b")], ["a", "b", "c"], True),
    "a piece that is missing": ([part(0, "a"), part(2, "c")], ["a", "c"], False),
    "a piece that failed": ([part(0, "a"), part(1, None), part(2, "c")], ["a", None, "c"], False),
    "a piece made good": ([part(0, "a"), part(1, None), part(2, "c"), part(1, "b")], ["a", "b", "c"], True),
    "other pieces": ([part(0, "a"), part(1, "b"), part(2, "c"), part(0, "A", 2), part(1, "B", 2)], ["A", "B"], True),
    "other content": ([*(part(n) for n in range(3)), part(0, "new", sha256="1" * 64)], ["new"], False),
    "whole, then in pieces": ([good_line("/long.wav"), part(0, "a", 1)], ["a"], True),
    "parts that nobody numbered": (
        [good_line("/a.wav", str(n), start_s=float(n), end_s=n + 1.0) for n in (1, 0)],
        ["0", "1"],
        True,
    ),
    "utterances of a microphone": (
        [good_line("/a", str(n), start_s=float(n), end_s=n + 1.0, sha256=str(n) * 64) for n in (1, 0, 2)],
        ["0", "1", "2"],
        True,
    ),
}


@pytest.mark.parametrize("case", STANDING)
def test_lines_that_stand_are_kept_and_put_together(tmp_path, case):
    lines, captions, complete = STANDING[case]
    others = good_line("/x.wav", "other"), good_line("/y.wav", "other")
    path = write(tmp_path / "o.jsonl", others[0], *lines[:1], others[1], *lines[1:])
    path.chmod(0o640)
    with Output(path, accept) as output:
        task = output.find(InputFile(lines[0].file))
        assert task.failed != complete
        assert [line.caption for line in output.transcripts(task)] == [caption for caption in captions if caption]
    assert [line.caption for line in read_transcripts(path)] == ["other", *captions, "other"]
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["o.jsonl"]


def test_new_lines_take_the_place_of_old_ones_when_it_is_closed_and_a_link_stays_one(tmp_path):
    (tmp_path / "disk").mkdir()
    real = write(tmp_path / "disk" / "real.jsonl", failed_line("/a.wav"), good_line("/b.wav"))
    link = tmp_path / "o.jsonl"
    link.symlink_to(real)
    with Output(link, accept) as output:
        output.add(Key("/a.wav", None), good_line("/a.wav"))
        assert files(real) == ["a.wav", "b.wav", "a.wav"]
        with pytest.raises(TranscriptError, match="being written by another run"):
            Output(link, accept)
    assert link.is_symlink()
    assert files(real) == ["a.wav", "b.wav"]
    assert all(line.caption for line in read_transcripts(real))


def test_a_text_that_looks_like_rounds_is_no_end(tmp_path):
    tricky = good_line("/a.wav", caption='x","rounds":[{"y":1}]', prompt='","rounds":[')
    path = write(tmp_path / "o.jsonl", tricky, good_line("/b\u2028.wav"))
    lines: list[Line] = []
    with Output(path, lambda line: lines.append(line) or ()):
        assert [line.head.caption for line in lines] == [tricky.caption, "A calm voice."]
        assert lines[0].head.prompt == tricky.prompt


@pytest.mark.parametrize(
    ("there", "damaged"),
    [('"totals":', '"totals"'), ('"rounds":[]', '"rounds":[{]'), ('"rounds":[]', '"rounds":{}'), ('"uplink"', '"up'),
     ('}\n', '\n'), ('"timing":', '"timing":\0'), ('"load_s":null', '"load_s":NaN')],
)  # fmt: skip
def test_a_line_that_is_damaged_within_its_rounds_is_not_taken_as_captioned(tmp_path, there, damaged):
    """And the file stays as it is, so that the good lines can be saved."""
    path, whole = tmp_path / "o.jsonl", f"{good_line('/a.wav').to_json()}\n"
    assert there in whole
    first, last = whole.split(there)[0], whole.split(there, 1)[1]
    lines = [f"{good_line('/c.wav').to_json()}\n", first + damaged + last, f"{good_line('/b.wav').to_json()}\n"]
    path.write_text(before := "".join(lines), "utf-8")
    with pytest.raises(TranscriptError, match=r"o\.jsonl:2 is not a transcript") as refused:
        Output(path, accept)
    assert "delete that line" in (refused.value.hint or "")
    assert path.read_text("utf-8") == before


def test_a_run_that_writes_nothing_leaves_no_file(tmp_path):
    with Output(tmp_path / "o.jsonl", accept):
        pass
    (tmp_path / "mine.jsonl").touch()
    with Output(tmp_path / "mine.jsonl", accept):
        pass
    assert os.listdir(tmp_path) == ["mine.jsonl"]


# --- the refusal to mix settings in one output ---


def terms(**changes: object) -> Check:
    asked = changes.pop("asked", lambda _: ("en", "Describe."))
    flags = {"decoding.mode": "edge", "edge.model": "edge", **changes.pop("flags", {})}
    known = {"language": None, "instruction": None, "settings": {**SETTINGS, "stop_strings": ()}, **changes}
    return accepting(SharedFields(load_config("mini", flags=flags).config, **known), asked)


def opened(tmp_path: Path, accepts: Check, *lines: Transcript) -> Output:
    with Output(write(tmp_path / "o.jsonl", *lines), accepts) as output:
        return output


def test_the_same_settings_are_accepted(tmp_path):
    other_style = good_line("/b.wav", settings={**SETTINGS, "style": None})
    opened(tmp_path, terms(), good_line("/a.wav"), failed_line("/c.wav"), other_style)
    opened(tmp_path, terms(asked=lambda _: None), good_line("/a.wav", language="zh", prompt="别的"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"flags": {"decoding.mode": "hybrid", "cloud.model": "cloud"}},
            "mode was 'edge' and is 'hybrid'; cloud.model was null and is 'cloud'",
        ),
        ({"settings": {**SETTINGS, "k": 3, "threshold": 2.0}}, "k was 5 and is 3; threshold was 1.1 and is 2.0"),
        ({"settings": {**SETTINGS, "new": 1}}, "new was null and is 1"),
        ({"settings": {key: SETTINGS[key] for key in SETTINGS if key != "k"}}, "k was 5 and is null"),
        ({"flags": {"edge.model": "other"}}, "edge.model was 'edge' and is 'other'"),
        ({"asked": lambda _: ("zh", "描述")}, "language was 'en' and is 'zh'; prompt was 'Describe.' and is '描述'"),
    ],
)
def test_other_settings_are_named_with_both_values(tmp_path, changes, said):
    with pytest.raises(ConfigError) as raised:
        opened(tmp_path, terms(**changes), good_line("/a.wav"))
    assert raised.value.message == f"{tmp_path / 'o.jsonl'}:1 was made with other settings: {said}."
    assert "--overwrite" in (raised.value.hint or "")


def test_a_run_goes_on_from_a_failure_in_a_row_with_a_language_of_its_own(tmp_path):
    config = load_config("mini", flags={"prompt.language": "zh"}).config
    shared, row = SharedFields.of(config, Lexicon.shipped()), InputFile("gone.wav", language="en")
    failed = shared.error_line(row, AudioNotFoundError("gone."))
    assert (failed.language, failed.prompt) == ("en", config.instruction("en"))
    opened(tmp_path, accepting(shared, lambda _: row.language_and_instruction(config)), failed)


KNOWN = {"name": "edge", "dtype": "float32", "device": "cpu", "weights": "sha256:1"}


@pytest.mark.parametrize(
    ("then", "now", "suggested", "told"),
    [
        ("sha256:1", {}, None, None),
        (None, {}, None, None),  # weights that nobody knows are not refused
        ("sha256:1", {"weights": None}, None, None),
        ("sha256:1", {"weights": "sha256:2"}, None, r"edge\.weights was .sha256:1. and is .sha256:2."),
        ("sha256:1", {"dtype": "bfloat16", "device": "cuda:0"}, None, r"edge\.dtype was .float32. and is .bfloat16."),
        ("sha256:1", {}, {"edge": {"repetition_penalty": 1.1}}, "suggested was null and is .*repetition_penalty"),
    ],
)
def test_other_models_are_refused_once_they_are_known(tmp_path, then, now, suggested, told):
    models = Models(edge=ModelInfo(**KNOWN | {"weights": then}), cloud=None)
    failed = failed_line("/b.wav")  # which came to no model, so that none can have suggested anything
    output = opened(tmp_path, terms(), failed, good_line("/a.wav", models=models))
    loaded = Models(edge=ModelInfo(**KNOWN | now), cloud=None)
    here = SimpleNamespace(models=loaded, settings={"suggested": suggested} if suggested else {})
    with nullcontext() if told is None else pytest.raises(ConfigError, match=rf"o\.jsonl:2 .*{told}"):
        output.require(lambda line: loaded_changes(line.head, here, ("dtype", "weights")))


def test_a_renamed_recording_keeps_its_line_and_others_stay_as_they_are(tmp_path):
    (tmp_path / "new.wav").write_bytes(b"sound")
    digest = sha256(b"sound").hexdigest()
    gone, other = good_line(tmp_path / "old.wav", sha256=digest), good_line("/x.wav")
    path = write(tmp_path / "o.jsonl", gone, other, good_line("-", sha256=digest))
    before = path.read_bytes().splitlines()
    with Output(path, accept) as output:
        item = InputFile(str(tmp_path / "new.wav"))
        assert [output.follow([item]) for _ in range(2)] == [1, 0]
        assert output.find(item).captioned
    assert files(path) == ["new.wav", "x.wav", "-"]
    assert path.read_bytes().splitlines()[1:] == before[1:]
