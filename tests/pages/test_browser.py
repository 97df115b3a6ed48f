"""The report as a person uses it: opened from disk in a browser, clicked through, at two widths, light and dark."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

import pytest

from tests.pages.sample import MODES, page_of
from tests.pages.test_page import EVIL, hostile

playwright = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser; pip install '.[dev]'")

SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--autoplay-policy=no-user-gesture-required",
]  # fmt: skip

PATIENCE_MS = 120_000
"""A busy machine is no failure."""

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


@contextmanager
def launched(*more: str) -> Iterator[Any]:
    """A browser with further flags."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no chromium or google-chrome on the PATH")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=found, args=[*FLAGS, *more], timeout=PATIENCE_MS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with launched() as chromium:
        yield chromium


@dataclass
class Visit:
    """A page that is open, and what went wrong or over the wire since.

    Attributes:
        tab: the browser's page.
        complaints: console errors and warnings, and uncaught exceptions.
        requests: addresses asked for.
        shots: folder for screenshots.
    """

    tab: object
    shots: Path
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def go(self, view: str) -> None:
        self.tab.evaluate("view => { location.hash = view }", view)
        self.tab.wait_for_selector(f"#view-{view.partition('-')[0]}:not([hidden]) h1")

    def shoot(self, name: str) -> None:
        self.tab.screenshot(path=self.shots / f"{name}.png", full_page=True)
        assert (self.shots / f"{name}.png").stat().st_size > 10_000

    def require_no_overflow(self) -> None:
        wide, window = self.tab.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert wide <= window

    def require_every_figure_in_sight(self) -> None:
        """No figure of a table lies beyond the window, nor beyond its scrolling box."""
        out = self.tab.evaluate(
            """() => [...document.querySelectorAll("section:not([hidden]) td")]
              .filter((cell) => cell.offsetParent && cell.getBoundingClientRect().right > window.innerWidth)
              .map((cell) => cell.textContent)"""
        )
        assert out == []

    def close(self) -> None:
        """Once nothing was complained of, and nothing fetched."""
        self.require_quiet()
        self.tab.context.close()

    def require_quiet(self) -> None:
        assert self.complaints == []
        assert {address.partition(":")[0] for address in self.requests} <= {"file", "blob"}
        assert sum(address.startswith("file:") for address in self.requests) == 1


def visit(browser: object, page: Path, shots: Path, size: str = "desktop", scheme: str = "light") -> Visit:
    width, height = SIZES[size]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    tab = context.new_page()
    tab.set_default_timeout(PATIENCE_MS)
    made = Visit(tab, shots)
    tab.on("console", lambda message: made.complaints.append(message.text) if message.type != "log" else None)
    tab.on("pageerror", lambda error: made.complaints.append(str(error)))
    tab.on("request", lambda request: made.requests.append(request.url))
    tab.goto(page.as_uri())
    tab.wait_for_selector("#list li", state="attached")
    return made


def brightness(tab: object) -> float:
    """Of the page's ground, 0 to 255."""
    colour = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    red, green, blue = map(float, colour.removeprefix("rgb(").removesuffix(")").split(","))
    return (red + green + blue) / 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_a_walk_through_the_report(browser, page, tmp_path, size, scheme):
    opened = visit(browser, page, tmp_path, size, scheme)
    tab = opened.tab
    assert (brightness(tab) > 128) == (scheme == "light")
    for selector in (".headline", "#view-summary table"):
        assert tab.locator(selector).first.is_visible()
    opened.require_no_overflow()
    tab.locator("details summary", has_text="What the figures mean").first.click()
    assert tab.locator("dl").first.is_visible()
    tab.locator("details summary", has_text="Models, instruction").click()
    assert tab.locator("table.settings").is_visible()
    opened.require_no_overflow()
    opened.require_every_figure_in_sight()
    assert "cloud" in tab.locator("#view-summary tr").nth(2).locator("td").last.get_attribute("data-column")
    opened.shoot(f"{size}-{scheme}-summary")

    tab.locator("header nav a", has_text="Clips").click()
    tab.wait_for_selector("#list li:visible")
    assert not tab.locator("#view-summary").is_visible()
    opened.require_no_overflow()
    cut = "(texts) => texts.filter((text) => text.scrollWidth > text.clientWidth + 1).length"
    assert tab.locator("#list .first").evaluate_all(cut) == 0  # to the emotion, which comes last
    opened.shoot(f"{size}-{scheme}-clips")

    tab.locator("#list li a").nth(1).click()
    tab.wait_for_selector("#view-clip h1:visible")
    assert tab.evaluate("location.hash") == "#clip-2"
    assert tab.locator("#view-clip h1").inner_text() == "voice 1.wav"
    for mode in MODES:
        card = tab.locator(f"#view-clip section[aria-label={mode}]")
        assert card.locator(".caption").is_visible()
        assert card.locator(".token .bar").first.is_visible()
        assert card.locator(".tokens .round").first.is_visible()
    bar = tab.locator("#view-clip section[aria-label=hybrid] .token .bar:not(.none)").first
    assert bar.bounding_box()["height"] >= 24
    line = "(bar) => { const look = getComputedStyle(bar, '::after'); return [look.borderTopStyle, look.top]; }"
    assert bar.evaluate(line) == ["dashed", f"{bar.bounding_box()['height'] / 2 - 1:g}px"]
    for path in (".wave", ".pitch"):
        box = tab.locator(path).bounding_box()
        assert box["width"] > 100
        assert box["height"] > 5
    opened.require_no_overflow()
    opened.shoot(f"{size}-{scheme}-clip")
    opened.close()


def test_the_recording_plays(browser, page, runs, tmp_path):
    opened = visit(browser, page, tmp_path)
    opened.go("clip-3")
    length = opened.tab.evaluate(
        """async () => {
          const player = document.querySelector("audio");
          if (player.readyState < 1) await new Promise((ready) => player.addEventListener("loadedmetadata", ready));
          return player.duration;
        }"""
    )
    assert length == pytest.approx(runs["edge"][2].duration_s, abs=0.15)
    box = opened.tab.locator(".plot svg").bounding_box()
    opened.tab.mouse.click(box["x"] + box["width"] / 2, box["y"] + 30)
    assert opened.tab.evaluate("document.querySelector('audio').currentTime") == pytest.approx(length / 2, rel=0.05)
    played = opened.tab.evaluate(
        """async () => {
          const player = document.querySelector("audio");
          const ended = new Promise((done) => player.addEventListener("ended", done));
          await player.play();
          await ended;
          return player.currentTime;
        }"""
    )
    assert played == pytest.approx(length, abs=0.1)
    opened.close()


def test_rounds_answer_to_keyboard_and_pointer(browser, page, runs, tmp_path):
    opened = visit(browser, page, tmp_path)
    opened.go("clip-1")
    card = opened.tab.locator("section[aria-label=lossless]")
    card.locator(".round").first.focus()
    assert (
        card.locator(".detail").inner_text().startswith(f"Round 1 of {len(runs['lossless'][0].rounds)}; cloud verified")
    )
    opened.tab.keyboard.press("ArrowRight")
    assert card.locator(".detail").inner_text().startswith("Round 2 of")
    assert card.locator(".round.chosen").count() == 1
    assert opened.tab.evaluate("location.hash") == "#clip-1"  # the arrow stayed in the rounds
    card.locator(".round").nth(2).hover()
    assert card.locator(".detail").inner_text().startswith("Round 3 of")
    assert "verify" in card.locator(".detail").inner_text()
    opened.close()


def test_search_sort_and_steps(browser, page, tmp_path):
    opened = visit(browser, page, tmp_path)
    tab = opened.tab
    opened.go("clips")
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
    tab.wait_for_url(f"{page.as_uri()}#clip-{order[2]}")
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
    opened.close()


def test_links_lead_to_clips_and_wrong_ones_to_the_summary(browser, page, tmp_path):
    opened = visit(browser, page, tmp_path)
    tab = opened.tab
    tab.goto(f"{page.as_uri()}#clip-3")
    assert tab.locator("#view-clip h1").inner_text() == "voice 2.wav"
    assert tab.title() == "voice 2.wav – specdec report"
    for wrong in ("clip-99", "clip-0", "clip-x", "elsewhere"):
        tab.evaluate("hash => { location.hash = hash }", wrong)
        tab.wait_for_selector("#view-summary:not([hidden])")
        tab.evaluate("location.hash = 'clips'")
        tab.wait_for_selector("#view-clips:not([hidden])")
    assert opened.complaints == []
    tab.context.close()


def test_every_control_can_be_reached_and_seen_by_keyboard(browser, page, tmp_path):
    opened = visit(browser, page, tmp_path)
    tab = opened.tab
    opened.go("clip-1")
    reached = set()
    for _ in range(40):
        tab.keyboard.press("Tab")
        reached.add(
            tab.evaluate(
                "document.activeElement.className || document.activeElement.id || document.activeElement.tagName"
            )
        )
        if tab.evaluate("document.activeElement.matches('.round, a, button')"):
            assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    assert {"round", "step", "AUDIO"} <= {name.split()[0] for name in reached}
    tab.context.close()


@pytest.mark.parametrize("view", ["summary", "clips", "clip-1"])
def test_markup_in_texts_does_nothing(browser, runs, tmp_path, view):
    evil_runs, made = hostile(runs)
    path = tmp_path / "evil.html"
    path.write_text(page_of(made, evil_runs), encoding="utf-8")
    opened = visit(browser, path, tmp_path, "phone")
    opened.go(view)
    opened.require_no_overflow()
    expected = f"{PurePath(EVIL).name} – specdec report" if view == "clip-1" else "specdec report"
    assert opened.tab.title() == expected
    assert opened.tab.locator("img").count() == 0
    assert "<script>" in opened.tab.locator("main").inner_text()
    opened.close()
