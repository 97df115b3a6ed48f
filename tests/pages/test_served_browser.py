"""The page of `specdec serve` as a person uses it: in a browser, with a file, a microphone, and the keyboard alone."""

import base64
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from specdec_cli.transcript import Transcript
from specdec_cli.transcript.token_fates import tokens
from tests.mini_pair import RATE, write_voice
from tests.pages.test_browser import PATIENCE_MS, brightness, launched
from tests.support.servers import TOKEN, captioning

MICROPHONE = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
DONE = ".downloads"
WIDTHS = (360, 800, 1400)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched(*MICROPHONE) as chromium:
        yield chromium


@pytest.fixture(scope="module")
def clip(tmp_path_factory) -> Path:
    return write_voice(tmp_path_factory.mktemp("clip") / "voice 3.wav", 3, 2.0)


@dataclass
class Visit:
    """A page that is open: what it complains of, and the addresses and bodies that it sends."""

    tab: Any
    complaints: list[str] = field(default_factory=list)
    sent: list[tuple[str, str | None]] = field(default_factory=list)

    def captioned(self, number: int = 1) -> str:
        """The caption, once so many requests are answered."""
        while len(self.bodies) < number:
            self.tab.wait_for_timeout(50)
        self.tab.wait_for_selector(DONE)
        return str(self.tab.locator("#said").inner_text())

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """Of the requests for captions."""
        return [json.loads(body or "") for address, body in self.sent if address.endswith("/completions")]

    def saved(self, key: str) -> str:
        """The text of a download, which the keyboard starts."""
        with self.tab.expect_download() as download:
            self.tab.locator(f"[data-key={key}]").focus()
            self.tab.keyboard.press("Enter")
        return Path(download.value.path()).read_text("utf-8")

    def tab_to(self, target: str) -> None:
        """Presses Tab until an element has the focus, whose outline can be seen."""
        for _ in range(60):
            self.tab.keyboard.press("Tab")
            if self.tab.evaluate(f"document.activeElement.matches({target!r})"):
                outline = "(e) => [e, e.parentElement].some((each) => getComputedStyle(each).outlineStyle !== 'none')"
                assert self.tab.locator(target).first.evaluate(outline)
                return
        raise AssertionError(f"Tab does not lead to {target}")

    def close(self, url: str) -> None:
        """Nothing was complained of, and nobody else was called."""
        assert self.complaints == []
        assert all(address.startswith((url, "blob:", "data:")) for address, _ in self.sent)
        self.tab.context.close()


def visit(browser: Any, url: str, width: int = 800, scheme: str = "light", language: str = "en-GB") -> Visit:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, locale=language)
    tab = context.new_page()
    tab.set_default_timeout(PATIENCE_MS)
    made = Visit(tab)
    tab.on("console", lambda message: made.complaints.append(message.text) if message.type != "log" else None)
    tab.on("pageerror", lambda error: made.complaints.append(str(error)))
    tab.on("request", lambda request: made.sent.append((request.url, request.post_data)))
    tab.goto(url)
    return made


def ready(made: Visit) -> Visit:
    made.tab.wait_for_selector("input[name=mode]:checked", state="attached")
    return made


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_caption_at_every_width(browser, served, clip, tmp_path, width, scheme):
    made = ready(visit(browser, served.url, width, scheme))
    assert (brightness(made.tab) > 128) == (scheme == "light")
    made.tab.set_input_files("#file", clip)
    assert made.captioned() == served.captioner.caption(clip).caption
    wide, window = made.tab.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= window
    out = "(all) => all.filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.textContent)"
    assert made.tab.locator(".tile p, .tile li, .pills button, .choice label").evaluate_all(out) == []
    made.tab.screenshot(path=tmp_path / "page.png", full_page=True)
    assert (tmp_path / "page.png").stat().st_size > 20_000
    made.close(served.url)


def figure(entropy: float | None) -> str:
    """As the page writes it."""
    return "—" if entropy is None else f"{entropy:.2f}" if entropy >= 0.005 else ""


def test_what_is_drawn_is_what_the_transcript_says(browser, served, clip):
    made = ready(visit(browser, served.url))
    made.tab.locator("input[value=lossless]").check()
    made.tab.set_input_files("#file", clip)
    made.captioned()
    transcript = Transcript.from_json(made.saved("jsonl"))
    assert (transcript.file, transcript.mode) == ("voice 3.wav", "lossless")
    drawn = made.tab.locator(".blocks .token").evaluate_all(
        "(all) => all.map((each) => [each.classList[1], each.querySelector('.figure').textContent])"
    )
    expected = [each for round_ in transcript.rounds for each in tokens(round_)]
    assert drawn == [[each.fate, figure(each.entropy)] for each in expected]
    verdicts = made.tab.locator(".verdict b").all_inner_texts()
    assert [text.split()[0] for text in verdicts] == [
        "corrected," if "corrected" in each.source else "accepted" for each in transcript.rounds
    ]
    rate = made.tab.locator(".tile", has_text="rate").first.inner_text()
    assert f"{transcript.measured.rate_per_s:.2f} syllables/s" in rate
    assert ("✓ fits" in rate) == transcript.agrees["rate"]
    for name, score in (transcript.scores or {}).items():
        tile = made.tab.locator(".tile", has=made.tab.locator("h3", has_text=name)).first
        assert tile.locator(".share").all_inner_texts() == [f"{round(100 * p + 1e-9)}%" for p in score.classes.values()]
    made.close(served.url)


def test_by_keyboard_alone(browser, served, clip):
    made = ready(visit(browser, served.url))
    asked = "(file) => file.addEventListener('click', (event) => { event.preventDefault(); file.id = 'asked'; })"
    made.tab.locator("#file").evaluate(asked)
    made.tab_to("#choose")
    made.tab.keyboard.press("Enter")
    made.tab.wait_for_selector("#asked", state="attached")  # the file chooser itself is the browser's
    made.tab.set_input_files("#asked", clip)
    made.captioned()
    made.tab_to(".play")
    made.tab_to(".plot input")
    made.tab.keyboard.press("End")
    made.tab.wait_for_selector(".plot input[aria-valuetext^='2.0 s']")
    made.tab_to("input[name=mode]")
    made.tab.keyboard.press("ArrowRight")
    made.captioned(2)
    made.tab.keyboard.press("ArrowLeft")
    made.captioned(3)
    made.tab_to("#threshold")
    made.tab.keyboard.press("Home")
    made.captioned(4)
    assert [each["model"] for each in made.bodies] == [f"specdec/{m}" for m in ("hybrid", "lossless", *["hybrid"] * 2)]
    assert [each["specdec"].get("gate.threshold") for each in made.bodies] == [None, None, None, 0]
    assert made.tab.locator(".round.asked").count() == made.tab.locator(".round").count()  # 0 escalates every block
    assert made.saved("srt").startswith("1\n00:00:00,000 --> 00:00:02,000\n")
    made.close(served.url)


def test_pieces_of_a_long_recording(browser, served, long, specdec, tmp_path):
    made = ready(visit(browser, served.url, 360))
    made.tab.set_input_files("#file", long)
    first = made.captioned()
    expected = list(served.captioner.captions(long))
    assert made.tab.locator(".span").count() == len(expected) > 3
    assert first == expected[0].caption
    assert re.search(r"voice: (male|female) \d+%", made.tab.locator(".whole").inner_text())
    made.tab.locator("[data-key=after]").focus()
    made.tab.keyboard.press("Enter")
    made.tab.keyboard.press("Enter")  # the focus stays
    assert made.tab.locator("#said").inner_text() == expected[2].caption
    assert made.tab.locator(".span[aria-pressed=true]").get_attribute("data-key") == "2"
    made.tab.locator(".span").last.click()
    assert made.tab.locator("#said").inner_text() == expected[-1].caption
    (tmp_path / "long talk.jsonl").write_text(made.saved("jsonl"), encoding="utf-8")
    for suffix in ("srt", "TextGrid"):
        assert specdec("export", tmp_path / "long talk.jsonl", "-o", tmp_path / f"out.{suffix}", "-q").code == 0
        assert made.saved(suffix) == (tmp_path / f"out.{suffix}").read_text("utf-8")
    made.close(served.url)


def test_a_recording_from_the_microphone(browser, served):
    made = ready(visit(browser, served.url, language="zh-CN"))
    made.tab_to("#record")
    made.tab.keyboard.press("Enter")
    made.tab.wait_for_selector("#stop:focus")
    assert made.tab.locator("#progress").inner_text() == "正在录音 …"
    made.tab.wait_for_timeout(4000)  # on a busy machine less than that is recorded
    made.tab.keyboard.press("Enter")
    assert made.captioned()
    (body,) = made.bodies
    assert body["specdec"] == {"language": "zh"}
    samples, rate = soundfile.read(io.BytesIO(base64.b64decode(sent_sound(body))))
    assert (rate, samples.ndim) == (RATE, 1)
    assert 1.0 < len(samples) / rate < 120
    assert np.abs(samples).max() > 0.01  # the fake microphone beeps
    made.close(served.url)


def sent_sound(body: dict[str, Any]) -> str:
    return str(body["messages"][0]["content"][0]["input_audio"]["data"])


DROP = """(names) => {
  const moved = new DataTransfer();
  for (const name of names) moved.items.add(new File(["no sound"], name));
  document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: moved, bubbles: true, cancelable: true }));
}"""


def test_what_is_dropped_is_sent_and_a_refusal_is_told(browser, served):
    made = ready(visit(browser, served.url))
    made.tab.evaluate(DROP, ["a.wav", "b.wav"])
    assert "one recording at a time" in made.tab.locator("#problem").inner_text()
    evil = "<img src=x onerror='document.title=1'>.mp3"
    made.tab.evaluate(DROP, [evil])
    made.tab.wait_for_selector("#problem:has-text('cannot be decoded')")
    assert made.tab.locator(".player bdi").inner_text() == evil
    assert base64.b64decode(sent_sound(made.bodies[0])) == b"no sound"
    assert made.tab.locator(DONE).count() == 0
    assert made.tab.locator("#said").get_attribute("aria-busy") == "false"  # or a screen reader waits for more
    while not made.complaints:
        made.tab.wait_for_timeout(50)
    assert made.complaints.pop().startswith("Failed to load resource: the server responded with a status of 400")
    made.close(served.url)


def test_a_file_beyond_the_limit_is_not_sent(browser, clip):
    with captioning(token=None, body_bytes=70_000) as served:
        made = ready(visit(browser, served.url))
        made.tab.set_input_files("#file", clip)
        made.tab.wait_for_selector("#problem:has-text('larger than the server takes')")
        assert made.bodies == []
        made.close(served.url)


def test_a_server_that_ends_is_told(browser, clip):
    with captioning(token=None) as served:
        made = ready(visit(browser, served.url))
    made.tab.set_input_files("#file", clip)
    made.tab.wait_for_selector("#problem:has-text('The server does not answer')")


def test_the_token_is_asked_for_and_kept_nowhere(browser, clip):
    with captioning() as served:
        made = visit(browser, served.url)
        made.tab.wait_for_selector("#token:focus")
        made.tab.keyboard.type("a guess")
        made.tab.keyboard.press("Enter")
        made.tab.wait_for_selector("#wrong")
        made.tab.locator("#token").fill(TOKEN)
        made.tab.keyboard.press("Enter")
        ready(made).tab.set_input_files("#file", clip)
        assert made.captioned() == served.captioner.caption(clip).caption
        kept = "JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href])"
        assert TOKEN not in made.tab.evaluate(kept)
        assert [each[-30:] for each in made.complaints] == ["a status of 401 (Unauthorized)"] * 2
        made.tab.reload()
        made.tab.wait_for_selector("#ask[open]")


WITHOUT_CAPTION = """() => {
  const left = document.querySelectorAll("#said, .words, .legend, .name, #models, .wide, #speech");
  for (const each of left) each.style.display = "none";
  return document.body.innerText;
}"""
NAMES = {"JSONL", "SRT", "TextGrid", "dBFS", "learned", "nats", "specdec"}
"""Words that both languages have."""


def test_both_languages(browser, served, clip):
    made = ready(visit(browser, served.url, language="zh-CN"))
    made.tab.set_input_files("#file", clip)
    assert made.captioned()
    assert made.tab.locator("#said").get_attribute("lang") == "zh"
    chinese = made.tab.evaluate(WITHOUT_CAPTION)
    assert "一个人怎样说话？" in chinese
    assert set(re.findall("[A-Za-z]{3,}", chinese)) <= NAMES
    made.tab.locator("#speech").evaluate("(button) => button.click()")
    english = made.tab.evaluate(WITHOUT_CAPTION)
    assert "How does someone speak?" in english
    assert not re.findall("[\u4e00-\u9fff]+", english)
    assert made.tab.locator("#said").get_attribute("lang") == "zh"  # the caption's own
    made.close(served.url)
