"""The review as a person does it: in a browser, by keys and by pointer, and what is saved in use."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from specdec_cli.labels import Lexicon
from specdec_cli.labels.references import References
from tests.cli.conftest import Specdec
from tests.mini_pair import write_voice
from tests.support.browser import PATIENCE_MS, Visit, Visiting

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

TIME = "document.querySelector('.editor audio').currentTime"
OPEN = "document.querySelector('.pick[aria-expanded=true]').parentElement.dataset.piece"
PIECES = "JSON.parse(document.getElementById('data').textContent).pieces"


@pytest.fixture
def opened(visit: Visiting, specdec: Specdec, tmp_path: Path) -> Callable[[Path], Visit]:
    """Opens the review of transcripts."""

    def open_(transcripts: Path) -> Visit:
        specdec("review", transcripts, "-o", tmp_path / "review.html", ends=0)
        return visit((tmp_path / "review.html").as_uri(), "#list li")

    return open_


@pytest.fixture
def made(opened, transcripts) -> Visit:
    return opened(transcripts)


def written(lines: list[dict[str, object]], path: Path) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def saved(made: Visit) -> list[dict[str, object]]:
    """The lines of the table that is downloaded."""
    return [json.loads(line) for line in made.saved("#save").splitlines()]


def classes(line: dict[str, object]) -> dict[str, object]:
    return {name.removeprefix("label_"): line[name] for name in line if name.startswith("label_")}


def reload_until(made: Visit, progress: str) -> None:
    """Opens the page anew until it says so: the browser stores in another process, in its own time.

    It may complain of the recording that it was loading when the page went.
    """
    assert made.complaints == []
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while True:
        made.tab.reload()
        made.tab.wait_for_selector("#list li")
        if (said := made.tab.locator("#progress").inner_text()) == progress:
            made.complaints.clear()
            return
        assert time.monotonic() < deadline, said


def test_a_review_at_every_width(made):
    tab = made.tab
    tab.locator(".pick").first.click()
    for _ in made.looks():
        assert tab.locator(".editor audio").is_visible()
    tab.locator(".row[aria-label=emotion] .class", has_text="happy").click()
    assert tab.locator(".class.chosen").count() == 1
    assert "1 of 4 reviewed, not saved" in tab.locator("#progress").inner_text()
    tab.locator(".actions .main").click()
    assert tab.evaluate(OPEN) == "1", "on to the next"
    (line,) = saved(made)
    piece = tab.evaluate(f"{PIECES}[0]")
    assert line["file"] == piece["file"]
    assert classes(line).keys() == set(piece["scores"])
    assert line["label_emotion"] == "happy"
    assert ("start_s" in line) == (piece["start"] is not None)
    assert "not saved" not in tab.locator("#progress").inner_text()
    reload_until(made, "1 of 4 reviewed")
    tab.locator(".pick").first.click()
    tab.locator(".row[aria-label=emotion] .class", has_text="sad").click()
    tab.on("dialog", lambda dialog: dialog.accept())  # leaving asks again
    reload_until(made, "1 of 4 reviewed, not saved")


def test_a_class_of_the_edge_that_was_kept_is_not_said_to_be_the_clouds(opened, transcripts):
    lines = [json.loads(line) for line in transcripts.read_text(encoding="utf-8").splitlines()]
    (kept, one), (changed, other) = [(line, line["labels"]["emotion"]) for line in lines[:2]]
    kept["scores"]["emotion"]["edge"] = one
    changed["scores"]["emotion"]["edge"] = next(name for name in ("sad", "angry") if name != other)
    why = " ".join(opened(written(lines, transcripts.with_name("edges.jsonl"))).tab.locator(".why").all_inner_texts())
    assert f"emotion: edge {one} (kept), cloud another" in why
    assert f"cloud {other}" in why


def test_speakers_and_channels_of_one_place_have_lines_of_their_own(opened, transcripts, tmp_path):
    whole = json.loads(transcripts.read_text(encoding="utf-8").splitlines()[-1])
    places: tuple[dict[str, object], ...] = ({"speaker": "ann"}, {"speaker": "bob"}, {"channel": 1}, {"channel": 1})
    lines = [whole | {"id": str(number)} | place for number, place in enumerate(places)]
    made = opened(written(lines, transcripts.with_name("places.jsonl")))
    heads = made.tab.locator(".pick .what .small").all_inner_texts()
    assert sorted(head.partition(" · ")[2] for head in heads) == ["ann", "bob", "channel 1", "channel 1"]
    made.tab.locator(".pick").first.click()
    for _ in places:
        made.tab.locator(".actions .main").click()
    table = written(saved(made), tmp_path / "corrections.jsonl")
    entries = References.read(table, lexicon=Lexicon.read(), strict=True).entries
    assert {(entry.speaker, entry.channel) for entry in entries} == {("ann", None), ("bob", None), (None, 1)}
    assert len(entries) == 3


def test_keys(made):
    tab = made.tab
    for key in ("j", "3", "ArrowRight", "2", "ArrowDown", "1", "0", "k"):
        tab.keyboard.press(key)
    assert tab.evaluate(OPEN) == "0"
    assert tab.locator(".class.chosen > span:nth-child(2)").all_inner_texts() == ["sad", "female"]
    (line,) = saved(made)
    assert classes(line) == {"emotion": "sad", "voice": "female"}
    reload_until(made, "1 of 4 reviewed")  # what was said is kept in the browser
    tab.locator("#show").select_option("open")
    assert tab.locator("#list li").count() == 3
    tab.locator("#search").fill("short")
    assert tab.locator("#list li").count() <= 1
    tab.keyboard.press("j")
    assert tab.locator("#search").input_value() == "shortj", "letters in a field are text"


def test_the_timeline_plays_from_where_one_clicks(made):
    tab = made.tab
    blocks = tab.locator(".span")
    assert blocks.count() == 3
    box = blocks.nth(1).bounding_box()
    # slowly, or the next piece may play before this process has looked
    tab.evaluate("document.addEventListener('play', (event) => { event.target.playbackRate = 1 / 16; }, true)")
    tab.mouse.click(box["x"] + 0.75 * box["width"], box["y"] + 10)
    made.until(f"{TIME} >= 1.45")
    piece, first = tab.evaluate(f"[{PIECES}[{OPEN}], {OPEN}]")
    assert (piece["name"], piece["start"]) == ("long.wav", 2.0)
    tab.evaluate("document.querySelector('.editor audio').playbackRate = 1")
    made.until(f"{OPEN} !== '{first}'")
    assert tab.evaluate(f"{PIECES}[{OPEN}].start") == 4.0, "it plays on into the next piece"
    tab.locator("#in").click()
    for _ in made.looks():
        pass
    tab.locator("#shown").select_option("voice")
    assert set(blocks.all_inner_texts()) <= {"male", "female"}


def test_corrections_are_references(opened, specdec, tmp_path):
    """What the page saves is read by compare and tune."""
    files = [write_voice(tmp_path / f"{seed}.wav", seed, 0.6) for seed in range(10)]
    output = tmp_path / "captions.jsonl"
    specdec("batch", *files, "-o", output, "-q", ends=0)
    made = opened(output)
    made.tab.keyboard.press("j")
    for index in range(10):
        made.tab.keyboard.press(str(1 + index % 7))
        made.tab.keyboard.press("Enter")
    table = written(rows := saved(made), tmp_path / "corrections.jsonl")
    assert len(rows) == 10
    compared = specdec("compare", *files, "--references", table, "--mode", "edge,cloud", "--json", "-q", ends=0)
    assert json.loads(compared.out)["references_found"] == 10
    how = ("--gate", "entropy", "-k", "2", "--budget", "blocks=1", "--json", "-q")
    tuned = specdec("tune", *files, "--references", table, *how, ends=0)
    assert json.loads(tuned.out)["measure"] == "labels"
