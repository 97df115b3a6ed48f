"""The report as a person uses it: opened from disk in a browser and clicked through."""

from pathlib import Path, PurePath

import pytest

from tests.pages.sample import MODES, page_of
from tests.pages.test_page import EVIL, hostile
from tests.support.browser import Visit, Visiting

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

BEYOND = """() => [...document.querySelectorAll("section:not([hidden]) td")]
  .filter((cell) => cell.offsetParent && cell.getBoundingClientRect().right > window.innerWidth)
  .map((cell) => cell.textContent)"""
"""Figures of tables that lie beyond the window, or beyond their scrolling box."""


@pytest.fixture
def report(visit: Visiting, page: Path) -> Visit:
    return visit(page.as_uri(), "#list li")


def go(report: Visit, view: str) -> None:
    report.tab.evaluate("view => { location.hash = view }", view)
    report.tab.wait_for_selector(f"#view-{view.partition('-')[0]}:not([hidden]) h1")


def test_a_walk_through_the_report_at_every_width(report):
    tab = report.tab
    for selector in (".headline", "#view-summary table"):
        assert tab.locator(selector).first.is_visible()
    tab.locator("details summary", has_text="What the figures mean").first.click()
    assert tab.locator("dl").first.is_visible()
    tab.locator("details summary", has_text="Models, instruction").click()
    assert tab.locator("table.settings").is_visible()
    assert "cloud" in tab.locator("#view-summary tr").nth(2).locator("td").last.get_attribute("data-column")
    for _ in report.looks():
        assert tab.evaluate(BEYOND) == []

    tab.locator("header nav a", has_text="Clips").click()
    tab.wait_for_selector("#list li:visible")
    assert not tab.locator("#view-summary").is_visible()
    for _ in report.looks():
        assert report.cut("#list .first") == []  # to the emotion, which comes last

    tab.locator("#list li a").nth(1).click()
    tab.wait_for_selector("#view-clip h1:visible")
    assert tab.evaluate("location.hash") == "#clip-2"
    assert tab.locator("#view-clip h1").inner_text() == "voice 1.wav"
    for _ in report.looks():
        for mode in MODES:
            card = tab.locator(f"#view-clip section[aria-label={mode}]")
            for part in (".caption", ".token .bar", ".tokens .round"):
                assert card.locator(part).first.is_visible()
        bar = tab.locator("#view-clip section[aria-label=hybrid] .token .bar:not(.none)").first
        height = bar.bounding_box()["height"]
        assert height >= 24
        line = "(bar) => { const look = getComputedStyle(bar, '::after'); return [look.borderTopStyle, look.top]; }"
        assert bar.evaluate(line) == ["dashed", f"{height / 2 - 1:g}px"]
        for path in (".wave", ".pitch"):
            box = tab.locator(path).bounding_box()
            assert box["width"] > 100
            assert box["height"] > 5


def test_the_recording_plays(report, runs):
    go(report, "clip-3")
    length = report.tab.evaluate(
        """async () => {
          const player = document.querySelector("audio");
          if (player.readyState < 1) await new Promise((ready) => player.addEventListener("loadedmetadata", ready));
          return player.duration;
        }"""
    )
    assert length == pytest.approx(runs["edge"][2].duration_s, abs=0.15)
    box = report.tab.locator(".plot svg").bounding_box()
    report.tab.mouse.click(box["x"] + box["width"] / 2, box["y"] + 30)
    assert report.tab.evaluate("document.querySelector('audio').currentTime") == pytest.approx(length / 2, rel=0.05)
    played = report.tab.evaluate(
        """async () => {
          const player = document.querySelector("audio");
          const ended = new Promise((done) => player.addEventListener("ended", done));
          await player.play();
          await ended;
          return player.currentTime;
        }"""
    )
    assert played == pytest.approx(length, abs=0.1)


def test_rounds_answer_to_keyboard_and_pointer(report, runs):
    go(report, "clip-1")
    assert report.tab.locator("audio[controls]").is_visible()
    for target in (".step", ".round"):
        report.tab_to(target)
    card = report.tab.locator("section[aria-label=lossless]")
    card.locator(".round").first.focus()
    said = card.locator(".detail")
    assert said.inner_text().startswith(f"Round 1 of {len(runs['lossless'][0].rounds)}; cloud verified")
    report.tab.keyboard.press("ArrowRight")
    assert said.inner_text().startswith("Round 2 of")
    assert card.locator(".round.chosen").count() == 1
    assert report.tab.evaluate("location.hash") == "#clip-1"  # the arrow stayed in the rounds
    card.locator(".round").nth(2).hover()
    assert said.inner_text().startswith("Round 3 of")
    assert "verify" in said.inner_text()


def test_search_sort_and_steps(report):
    tab = report.tab
    go(report, "clips")
    clips = tab.evaluate("JSON.parse(document.getElementById('data').textContent).clips")
    shares = [clip["disagreement"] for clip in clips]
    tab.locator("#sort").select_option("disagreement")
    order = [int(item.get_attribute("value")) for item in tab.locator("#list li").all()]
    assert [shares[number - 1] for number in order] == sorted(shares, reverse=True)
    tab.locator("#list li a").first.click()
    tab.locator("#view-clip a[rel=next]").click()
    assert tab.evaluate("location.hash") == f"#clip-{order[1]}"
    tab.wait_for_selector(f"#view-clip h1:has-text('voice {order[1] - 1}.wav')")  # or the key is another clip's
    tab.keyboard.press("ArrowRight")
    tab.wait_for_url(f"{report.url}#clip-{order[2]}")
    tab.wait_for_selector("#view-clip a[rel=next]", state="detached")  # the last clip: drawn after the URL has changed
    tab.keyboard.press("Escape")
    tab.wait_for_selector("#search:visible")
    tab.locator("#search").fill("VOICE 2.wav")
    assert tab.locator("#list li").count() == 1
    assert tab.locator("#found").inner_text() == "1 of 3 clips"
    tab.locator("#search").fill("no such words")
    assert tab.locator("#list li").count() == 0
    tab.locator("#search").fill("")
    known = [(clip["labels"]["edge"], clip["reference_labels"]) for clip in clips]
    wrong = [number for number, (named, true) in enumerate(known, 1) if any(named[each] != true[each] for each in true)]
    tab.locator("#wrong").select_option("edge")
    assert sorted(int(item.get_attribute("value")) for item in tab.locator("#list li").all()) == wrong != []
    tab.locator("#wrong").select_option("cloud")
    assert tab.locator("#list li").count() == 0  # the references name what the cloud names


def test_links_lead_to_clips_and_wrong_ones_to_the_summary(report):
    tab = report.tab
    tab.goto(f"{report.url}#clip-3")
    assert tab.locator("#view-clip h1").inner_text() == "voice 2.wav"
    assert tab.title() == "voice 2.wav – specdec report"
    for wrong in ("clip-99", "clip-0", "clip-x", "elsewhere"):
        tab.evaluate("hash => { location.hash = hash }", wrong)
        tab.wait_for_selector("#view-summary:not([hidden])")
        go(report, "clips")


def test_markup_in_texts_does_nothing(visit, runs, tmp_path):
    evil_runs, made = hostile(runs)
    path = tmp_path / "evil.html"
    path.write_text(page_of(made, evil_runs), encoding="utf-8")
    report = visit(path.as_uri(), "#list li")
    for view in ("summary", "clips", "clip-1"):
        go(report, view)
        for _ in report.looks():
            assert "<script>" in report.tab.locator("main").inner_text()
        expected = f"{PurePath(EVIL).name} – specdec report" if view == "clip-1" else "specdec report"
        assert report.tab.title() == expected
        assert report.tab.locator("img").count() == 0
