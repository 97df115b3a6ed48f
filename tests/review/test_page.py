"""The page of a review: the doubtful first, everything in it, nothing fetched, and nothing that a text can do."""

import json
from pathlib import Path

import pytest

from specdec_cli.labels import Lexicon
from specdec_cli.labels.references import References
from tests.cli.conftest import Specdec
from tests.pages.read_page import Page

EVIL = "</script><script>alert(1)</script>\u202e\x07"


def made(specdec: Specdec, transcripts: Path, output: Path, *options: str | Path, code: int = 0) -> Page:
    outcome = specdec("review", transcripts, "-o", output, *options)
    assert outcome.code == code, outcome.err
    return Page(output.read_text(encoding="utf-8"))


def audio(page: Page) -> list[str]:
    """Names of the embedded recordings."""
    names = [attributes.get("id") or "" for _, attributes, _ in page.sources]
    return [name for name in names if name.startswith("audio-")]


def changed(transcripts: Path, tmp_path: Path, **values: object) -> Path:
    """The transcripts with other values in every line."""
    lines = [json.loads(line) for line in transcripts.read_text(encoding="utf-8").splitlines()]
    path = tmp_path / "changed.jsonl"
    head = [{**{name: line[name] for name in ("schema", "file")}, **line, **values} for line in lines]
    text = "\n".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in head)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def test_every_piece_with_its_audio_the_doubtful_first(specdec, transcripts, tmp_path):
    page = made(specdec, transcripts, tmp_path / "review.html")
    pieces = page.data()["pieces"]
    assert len(pieces) == len(audio(page)) == 4
    assert [piece["review"] for piece in pieces] == sorted((piece["review"] for piece in pieces), reverse=True)
    doubts = [piece["doubt"] for piece in pieces if piece["review"]]
    assert doubts == sorted(doubts, reverse=True)
    assert sorted((piece["start"] or 0.0) for piece in pieces if piece["name"] == "long.wav") == [0.0, 2.0, 4.0]
    assert page.data()["attributes"]["emotion"][0] == "neutral"
    assert next(iter(page.data()["attributes"])) == "emotion"


def test_what_contradicts_the_sound_comes_first_with_its_figure(specdec, transcripts, tmp_path):
    lines = [json.loads(line) for line in transcripts.read_text("utf-8").splitlines()]
    least = made(specdec, transcripts, tmp_path / "before.html").data()["pieces"][-1]
    for line in lines:
        line["labels"] = {**line["labels"], "rate": "slow"}
        line["measured"] = {**dict.fromkeys(line.get("measured") or {}), "rate_per_s": 2.0}
        if (line["file"].endswith(least["name"]), line.get("start_s")) == (True, least["start"]):
            line["flags"], line["measured"]["rate_per_s"] = ["contradicts"], 9.25
    path = tmp_path / "contradicts.jsonl"
    path.write_text(
        "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines), "utf-8"
    )
    first, second, *_ = made(specdec, path, tmp_path / "after.html").data()["pieces"]
    assert (first["name"], first["start"]) == (least["name"], least["start"])
    assert first["flags"] == ["contradicting the sound"]
    assert first["claims"]["rate"] == ["slow rate · 9.25 syllables/s", False]
    assert second["claims"]["rate"] == ["slow rate · 2.00 syllables/s", True]


@pytest.mark.parametrize("parts", [(None, None), (0.0, 0.0), (0.0, 0.5)])
def test_clips_of_one_recording_are_all_there(specdec, transcripts, tmp_path, parts):
    """Rows of a manifest: twice the whole recording, twice the same part, two parts."""
    whole = json.loads(transcripts.read_text("utf-8").splitlines()[-1])
    lines = []
    for id_, start in zip(("a-en", "a-2"), parts, strict=True):
        place = {} if start is None else {"start_s": start, "end_s": start + 0.5, "duration_s": 0.5}
        known = {"schema": 1, "file": whole["file"], "id": id_, **place}
        lines.append(json.dumps({**known, **{name: value for name, value in whole.items() if name not in known}}))
    (tmp_path / "rows.jsonl").write_text("\n".join(lines) + "\n")
    page = made(specdec, tmp_path / "rows.jsonl", tmp_path / "review.html")
    assert sorted(piece["start"] for piece in page.data()["pieces"] if piece["start"] is not None) == [
        start for start in parts if start is not None
    ]
    assert len(page.data()["pieces"]) == len(audio(page)) == 2


@pytest.mark.parametrize("lost", ["/gone/{}", "gone-{}", "."])
def test_recordings_that_are_not_found_are_told(specdec, transcripts, tmp_path, lost):
    moved = changed(transcripts, tmp_path, file=lost.format("a.wav"))
    for options in ((), ("-q",)):
        outcome = specdec("review", moved, "-o", tmp_path / "review.html", *options)
        assert (outcome.code, (tmp_path / "review.html").exists()) == (1, True)
        assert "without audio, for example of" in outcome.err
        assert "hint: Run the command where the recordings are" in " ".join(outcome.err.split())


def test_nothing_is_fetched_and_only_its_own_script_runs(specdec, transcripts, tmp_path):
    page = made(specdec, transcripts, tmp_path / "review.html")
    page.require_offline(page.meta("Content-Security-Policy"))


def test_texts_stay_texts(specdec, transcripts, tmp_path):
    evil = changed(transcripts, tmp_path, file=EVIL, caption=EVIL, speaker=EVIL, text=EVIL)
    page = made(specdec, evil, tmp_path / "review.html", code=1)
    assert {piece["caption"] for piece in page.data()["pieces"]} == {EVIL}
    assert sum(tag == "script" for tag, _ in page.elements) == 2
    assert all("cannot be" in piece["missing"] or "not" in piece["missing"] for piece in page.data()["pieces"])


def test_audio_is_bounded_and_the_most_doubtful_are_heard(specdec, transcripts, tmp_path):
    outcome = specdec("review", transcripts, "-o", tmp_path / "a.html", "--audio-mb", "0.04")
    page = Page((tmp_path / "a.html").read_text())
    assert "without audio, for which the page would exceed 0.04 MB" in outcome.err
    assert 0 < len(audio(page)) < 4
    assert "audio-0" in audio(page)
    few = made(specdec, transcripts, tmp_path / "b.html", "--limit", "2")
    assert len(few.data()["pieces"]) == len(audio(few)) == 2


def test_of_references_it_is_told_how_many_were_found(specdec, transcripts, tmp_path):
    table, output = tmp_path / "truth.tsv", tmp_path / "review.html"
    for name, code, said in (
        ("x.wav", 2, "0 of 4 recordings were found in"),
        ("short.wav", 0, "of them to be reviewed, 1 with references"),
    ):
        table.write_text(f"file\temotion\n{name}\tsad\n")
        outcome = specdec("review", transcripts, "-o", output, "--references", table)
        assert (outcome.code, output.exists()) == (code, code == 0)
        assert said in outcome.err


@pytest.mark.parametrize(
    ("values", "field", "shown"),
    [
        ({"labels": None, "scores": None, "needs_review": None}, "doubt", None),
        ({"sha256": "0" * 64}, "missing", "The file has changed since it was captioned."),
        # classes of another lexicon cannot be confirmed
        (
            {"labels": {"emotion": "bored", "accent": "x", "voice": "male"}},
            "labels",
            {"emotion": None, "voice": "male"},
        ),
        ({"flags": ["no_speech"], "needs_review": False}, "review", True),
    ],
)
def test_what_a_piece_shows(specdec, transcripts, tmp_path, values, field, shown):
    code = int(field == "missing")
    page = made(specdec, changed(transcripts, tmp_path, **values), tmp_path / "review.html", code=code)
    pieces = page.data()["pieces"]
    assert [piece[field] for piece in pieces] == [shown] * 4


def test_captions_in_several_languages_modes_and_by_several_models_are_all_there(specdec, transcripts, tmp_path):
    other = changed(transcripts, tmp_path, language="zh")
    made(specdec, transcripts, tmp_path / "one.html")
    assert specdec("review", transcripts, other, transcripts, "-o", "two.html").code == 0
    pieces = Page(Path("two.html").read_text("utf-8")).data()["pieces"]
    assert sorted(piece["language"] for piece in pieces) == ["en"] * 4 + ["zh"] * 4


def test_a_blind_page_holds_nothing_that_models_said(specdec, transcripts, tmp_path):
    page = made(specdec, changed(transcripts, tmp_path, caption="A secret."), tmp_path / "review.html", "--blind")
    assert "A secret." not in (tmp_path / "review.html").read_text("utf-8")
    assert page.data()["attributes"]["emotion"]
    for piece in page.data()["pieces"]:
        assert [piece[name] for name in ("labels", "scores", "claims", "figures", "flags")] == [{}, {}, {}, [], []]


def test_rows_that_were_only_confirmed_are_counted_where_they_judge(tmp_path):
    table = tmp_path / "corrections.jsonl"
    rows = [
        {"file": "a.wav", "label_emotion": "sad", "confirmed": "emotion"},
        {"file": "b.wav", "label_emotion": "sad"},
    ]
    table.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    found = References.read(table, lexicon=Lexicon.read())
    assert any("classes of 1 rows were only confirmed" in sentence for sentence in found.skips.sentences())
