"""The review as a person does it: in a browser, by keys and by pointer, at two widths, and what is saved in use."""

import json
import time
from pathlib import Path

import pytest

from specdec_cli.labels import Lexicon
from specdec_cli.labels.references import References
from tests.cli.conftest import Specdec
from tests.mini_pair import write_voice
from tests.pages.test_browser import PATIENCE_MS, Visit, browser, visit  # noqa: F401 - browser is a fixture

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

TIME = "document.querySelector('.editor audio').currentTime"
OPEN = "document.querySelector('.pick[aria-expanded=true]').parentElement.dataset.piece"


def opened(browser: object, specdec: Specdec, transcripts: Path, tmp_path: Path, size: str = "desktop") -> Visit:  # noqa: F811
    page = tmp_path / "review.html"
    assert specdec("review", transcripts, "-o", page).code == 0
    return visit(browser, page, tmp_path, size)


def saved(made: Visit, tmp_path: Path) -> list[dict[str, object]]:
    """The lines of the table that is downloaded."""
    with made.tab.expect_download() as download:
        made.tab.locator("#save").click()
    download.value.save_as(tmp_path / download.value.suggested_filename)
    return [json.loads(line) for line in (tmp_path / "corrections.jsonl").read_text(encoding="utf-8").splitlines()]


def until(made: Visit, condition: str) -> None:
    """Waits; the page's policy lets nothing evaluate a text inside it."""
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while not made.tab.evaluate(condition):
        assert time.monotonic() < deadline, condition
        made.tab.wait_for_timeout(50)


def reload_until(made: Visit, progress: str) -> None:
    """Opens the page anew until it says so: the browser stores in another process, in its own time."""
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while True:
        made.tab.reload()
        made.tab.wait_for_selector("#list li")
        if (said := made.tab.locator("#progress").inner_text()) == progress:
            return
        assert time.monotonic() < deadline, said


@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_a_review(browser, specdec, transcripts, tmp_path, size):  # noqa: F811
    made = opened(browser, specdec, transcripts, tmp_path, size)
    tab = made.tab
    made.require_no_overflow()
    tab.locator(".pick").first.click()
    assert tab.locator(".editor audio").is_visible()
    made.require_no_overflow()
    made.shoot(f"{size}-open")
    tab.locator(".row[aria-label=emotion] .class", has_text="happy").click()
    assert tab.locator(".class.chosen").count() == 1
    assert "1 of 4 reviewed, not saved" in tab.locator("#progress").inner_text()
    tab.locator(".actions .main").click()
    assert tab.evaluate(OPEN) == "1", "on to the next"
    (line,) = saved(made, tmp_path)
    piece = tab.evaluate("JSON.parse(document.getElementById('data').textContent).pieces[0]")
    assert line["file"] == piece["file"]
    assert line["label_emotion"] == "happy"
    assert {name.removeprefix("label_") for name in line if name.startswith("label_")} == set(piece["scores"])
    assert ("start_s" in line) == (piece["start"] is not None)
    assert "not saved" not in tab.locator("#progress").inner_text()
    made.require_quiet()
    reload_until(made, "1 of 4 reviewed")
    tab.locator(".pick").first.click()
    tab.locator(".row[aria-label=emotion] .class", has_text="sad").click()
    tab.on("dialog", lambda dialog: dialog.accept())  # leaving asks again
    reload_until(made, "1 of 4 reviewed, not saved")
    tab.context.close()


def test_a_class_of_the_edge_that_was_kept_is_not_said_to_be_the_clouds(
    browser,  # noqa: F811
    specdec,
    transcripts,
    tmp_path,
):
    lines = [json.loads(line) for line in transcripts.read_text(encoding="utf-8").splitlines()]
    kept, changed = lines[:2]
    kept["scores"]["emotion"]["edge"] = kept["labels"]["emotion"]
    changed["scores"]["emotion"]["edge"] = next(
        name for name in ("sad", "angry") if name != changed["labels"]["emotion"]
    )
    copy = transcripts.with_name("edges.jsonl")
    copy.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    tab = opened(browser, specdec, copy, tmp_path).tab
    why = " ".join(tab.locator(".why").all_inner_texts())
    assert f"emotion: edge {kept['labels']['emotion']} (kept), cloud another" in why
    assert f"cloud {changed['labels']['emotion']}" in why
    tab.context.close()


def test_speakers_and_channels_of_one_place_have_lines_of_their_own(
    browser,  # noqa: F811
    specdec,
    transcripts,
    tmp_path,
):
    whole = json.loads(transcripts.read_text(encoding="utf-8").splitlines()[-1])
    places: tuple[dict[str, object], ...] = ({"speaker": "ann"}, {"speaker": "bob"}, {"channel": 1}, {"channel": 1})
    copy = transcripts.with_name("places.jsonl")
    lines = [whole | {"id": str(number)} | place for number, place in enumerate(places)]
    copy.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    made = opened(browser, specdec, copy, tmp_path)
    heads = made.tab.locator(".pick .what .small").all_inner_texts()
    assert sorted(head.partition(" · ")[2] for head in heads) == ["ann", "bob", "channel 1", "channel 1"]
    made.tab.locator(".pick").first.click()
    for _ in places:
        made.tab.locator(".actions .main").click()
    rows = [{name: line.get(name) for name in ("speaker", "channel")} for line in saved(made, tmp_path)]
    assert sorted(map(str, rows)) == sorted(
        map(str, ({"speaker": None, "channel": None} | place for place in places[:3]))
    )
    table = References.read(tmp_path / "corrections.jsonl", lexicon=Lexicon.read(), strict=True)
    assert [entry.channel for entry in table.entries if entry.speaker is None] == [1]
    made.tab.context.close()


def test_keys(browser, specdec, transcripts, tmp_path):  # noqa: F811
    made = opened(browser, specdec, transcripts, tmp_path)
    tab = made.tab
    for key in ("j", "3", "ArrowRight", "2", "ArrowDown", "1", "0", "k"):
        tab.keyboard.press(key)
    assert tab.evaluate(OPEN) == "0"
    assert tab.locator(".class.chosen > span:nth-child(2)").all_inner_texts() == ["sad", "female"]
    (line,) = saved(made, tmp_path)
    assert {name: line[name] for name in line if name.startswith("label_")} == {
        "label_emotion": "sad",
        "label_voice": "female",
    }
    reload_until(made, "1 of 4 reviewed")  # what was said is kept in the browser
    tab.locator("#show").select_option("open")
    assert tab.locator("#list li").count() == 3
    tab.locator("#search").fill("short")
    assert tab.locator("#list li").count() <= 1
    tab.keyboard.press("j")
    assert tab.locator("#search").input_value() == "shortj", "letters in a field are text"
    tab.context.close()


def test_the_timeline_plays_from_where_one_clicks(
    browser,  # noqa: F811
    specdec,
    transcripts,
    tmp_path,
):
    made = opened(browser, specdec, transcripts, tmp_path)
    tab = made.tab
    blocks = tab.locator(".span")
    assert blocks.count() == 3
    box = blocks.nth(1).bounding_box()
    # slowly, or the next piece may play before this process has looked
    tab.evaluate("document.addEventListener('play', (event) => { event.target.playbackRate = 1 / 16; }, true)")
    tab.mouse.click(box["x"] + 0.75 * box["width"], box["y"] + 10)
    until(made, f"{TIME} >= 1.45")
    piece = tab.evaluate(f"JSON.parse(document.getElementById('data').textContent).pieces[{OPEN}]")
    assert (piece["name"], piece["start"]) == ("long.wav", 2.0)
    first = tab.evaluate(OPEN)
    tab.evaluate("document.querySelector('.editor audio').playbackRate = 1")
    until(made, f"{OPEN} !== '{first}'")
    piece = tab.evaluate(f"JSON.parse(document.getElementById('data').textContent).pieces[{OPEN}]")
    assert piece["start"] == 4.0, "it plays on into the next piece"
    tab.locator("#in").click()
    made.require_no_overflow()
    tab.locator("#shown").select_option("voice")
    assert set(blocks.all_inner_texts()) <= {"male", "female"}
    made.close()


def test_corrections_are_references(browser, specdec, tmp_path):  # noqa: F811
    """What the page saves is read by compare and tune."""
    files = [write_voice(tmp_path / f"{seed}.wav", seed, 0.6) for seed in range(10)]
    output = tmp_path / "captions.jsonl"
    assert specdec("batch", *files, "-o", output, "-q").code == 0
    made = opened(browser, specdec, output, tmp_path)
    made.tab.keyboard.press("j")
    for index in range(10):
        made.tab.keyboard.press(str(1 + index % 7))
        made.tab.keyboard.press("Enter")
    assert len(saved(made, tmp_path)) == 10
    made.tab.context.close()
    table = tmp_path / "corrections.jsonl"
    compared = specdec("compare", *files, "--references", table, "--mode", "edge,cloud", "--json", "-q", ends=0)
    assert json.loads(compared.out)["references_found"] == 10
    tuned = specdec(
        "tune", *files, "--references", table, "--gate", "entropy", "-k", "2", "--budget", "blocks=1", "--json", "-q"
    )
    assert tuned.code == 0, tuned.err
    assert json.loads(tuned.out)["measure"] == "labels"
