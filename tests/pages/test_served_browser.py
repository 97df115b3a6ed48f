"""The page of `specdec serve` as a person uses it: in a browser, with a file, a microphone, and the keyboard alone."""

import base64
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from specdec_cli.transcript import Transcript
from specdec_cli.transcript.token_fates import tokens
from tests.mini_pair import RATE, write_voice
from tests.support.browser import Visit, Visiting
from tests.support.servers import TOKEN, Running, captioning

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

DONE = ".downloads"
READY = "input[name=mode]:checked"


@pytest.fixture(scope="module")
def clip(tmp_path_factory) -> Path:
    return write_voice(tmp_path_factory.mktemp("clip") / "voice 3.wav", 3, 2.0)


@pytest.fixture
def made(visit: Visiting, served: Running) -> Visit:
    """The page, ready."""
    return visit(served.url, READY)


def bodies(made: Visit) -> list[dict[str, Any]]:
    """Of the requests for captions."""
    return [json.loads(body or "") for address, body in made.sent if address.endswith("/completions")]


def captioned(made: Visit, number: int = 1) -> str:
    """The caption, once so many requests are answered."""
    while len(bodies(made)) < number:
        made.tab.wait_for_timeout(50)
    made.tab.wait_for_selector(DONE)
    return str(made.tab.locator("#said").inner_text())


def saved(made: Visit, key: str) -> str:
    """The text of a download."""
    return made.saved(f"[data-key={key}]")


def figure(entropy: float | None) -> str:
    """As the page writes it."""
    return "—" if entropy is None else f"{entropy:.2f}" if entropy >= 0.005 else ""


def test_what_is_drawn_is_what_the_transcript_says_at_every_width(made, clip):
    made.tab.locator("input[value=lossless]").check()
    made.tab.set_input_files("#file", clip)
    captioned(made)
    transcript = Transcript.from_json(saved(made, "jsonl"))
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
    for _ in made.looks():
        assert made.cut(".tile p, .tile li, .pills button, .choice label") == []


def test_by_keyboard_alone(made, served, clip):
    asked = "(file) => file.addEventListener('click', (event) => { event.preventDefault(); file.id = 'asked'; })"
    made.tab.locator("#file").evaluate(asked)
    made.tab_to("#choose")
    made.tab.keyboard.press("Enter")
    made.tab.wait_for_selector("#asked", state="attached")  # the file chooser itself is the browser's
    made.tab.set_input_files("#asked", clip)
    assert captioned(made) == served.captioner.caption(clip).caption
    made.tab_to(".play")
    made.tab_to(".plot input")
    made.tab.keyboard.press("End")
    made.tab.wait_for_selector(".plot input[aria-valuetext^='2.0 s']")
    made.tab_to("input[name=mode]")
    made.tab.keyboard.press("ArrowRight")
    captioned(made, 2)
    made.tab.keyboard.press("ArrowLeft")
    captioned(made, 3)
    made.tab_to("#threshold")
    made.tab.keyboard.press("Home")
    captioned(made, 4)
    assert [each["model"] for each in bodies(made)] == [f"specdec/{m}" for m in ("hybrid", "lossless", *["hybrid"] * 2)]
    assert [each["specdec"].get("gate.threshold") for each in bodies(made)] == [None, None, None, 0]
    assert made.tab.locator(".round.asked").count() == made.tab.locator(".round").count()  # 0 escalates every block
    assert saved(made, "srt").startswith("1\n00:00:00,000 --> 00:00:02,000\n")


def test_pieces_of_a_long_recording(made, served, long, specdec, tmp_path):
    made.tab.set_input_files("#file", long)
    first = captioned(made)
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
    (tmp_path / "long talk.jsonl").write_text(saved(made, "jsonl"), encoding="utf-8")
    for suffix in ("srt", "TextGrid"):
        assert specdec("export", tmp_path / "long talk.jsonl", "-o", tmp_path / f"out.{suffix}", "-q").code == 0
        assert saved(made, suffix) == (tmp_path / f"out.{suffix}").read_text("utf-8")


def test_a_recording_from_the_microphone(visit, served):
    made = visit(served.url, READY, language="zh-CN")
    made.tab_to("#record")
    made.tab.keyboard.press("Enter")
    made.tab.wait_for_selector("#stop:focus")
    assert made.tab.locator("#progress").inner_text() == "正在录音 …"
    made.tab.wait_for_timeout(4000)  # on a busy machine less than that is recorded
    made.tab.keyboard.press("Enter")
    assert captioned(made)
    (body,) = bodies(made)
    assert body["specdec"] == {"language": "zh"}
    samples, rate = soundfile.read(io.BytesIO(base64.b64decode(sent_sound(body))))
    assert (rate, samples.ndim) == (RATE, 1)
    assert 1.0 < len(samples) / rate < 120
    assert np.abs(samples).max() > 0.01  # the fake microphone beeps


def test_a_recording_from_the_microphone_ends_after_ten_minutes(visit, served):
    made = visit(served.url, READY)
    made.tab.clock.install()
    made.tab.locator("#record").click()
    made.tab.wait_for_selector("#stop:focus")
    made.tab.wait_for_timeout(4000)  # as above
    made.tab.clock.fast_forward(590_000)
    assert made.tab.locator("#stop").is_visible()
    made.tab.clock.fast_forward(11_000)
    made.tab.wait_for_selector("#stop", state="hidden")
    assert captioned(made)


def sent_sound(body: dict[str, Any]) -> str:
    return str(body["messages"][0]["content"][0]["input_audio"]["data"])


DROP = """(names) => {
  const moved = new DataTransfer();
  for (const name of names) moved.items.add(new File(["no sound"], name));
  document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: moved, bubbles: true, cancelable: true }));
}"""


def test_what_is_dropped_is_sent_and_a_refusal_is_told(made):
    made.tab.evaluate(DROP, ["a.wav", "b.wav"])
    assert "one recording at a time" in made.tab.locator("#problem").inner_text()
    evil = "<img src=x onerror='document.title=1'>.mp3"
    made.tab.evaluate(DROP, [evil])
    made.tab.wait_for_selector("#problem:has-text('cannot be decoded')")
    assert made.tab.locator(".player bdi").inner_text() == evil
    assert base64.b64decode(sent_sound(bodies(made)[0])) == b"no sound"
    assert made.tab.locator(DONE).count() == 0
    assert made.tab.locator("#said").get_attribute("aria-busy") == "false"  # or a screen reader waits for more
    assert made.complained(1)[0].startswith("Failed to load resource: the server responded with a status of 400")


def test_a_file_beyond_the_limit_is_not_sent(visit, clip):
    with captioning(token=None, body_bytes=70_000) as served:
        made = visit(served.url, READY)
        made.tab.set_input_files("#file", clip)
        made.tab.wait_for_selector("#problem:has-text('larger than the server takes')")
        assert bodies(made) == []


def test_a_server_that_ends_is_told(visit, clip):
    with captioning(token=None) as served:
        made = visit(served.url, READY)
    made.tab.set_input_files("#file", clip)
    made.tab.wait_for_selector("#problem:has-text('The server does not answer')")
    assert "Failed to load resource" in made.complained(1)[0]


def test_the_token_is_asked_for_and_kept_nowhere(visit, clip):
    with captioning() as served:
        made = visit(served.url, "#token:focus")
        made.tab.keyboard.type("a guess")
        made.tab.keyboard.press("Enter")
        made.tab.wait_for_selector("#wrong")
        made.tab.locator("#token").fill(TOKEN)
        made.tab.keyboard.press("Enter")
        made.tab.wait_for_selector(READY, state="attached")
        made.tab.set_input_files("#file", clip)
        assert captioned(made) == served.captioner.caption(clip).caption
        kept = "JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href])"
        assert TOKEN not in made.tab.evaluate(kept)
        made.tab.reload()
        made.tab.wait_for_selector("#ask[open]")
        assert [each[-30:] for each in made.complained(3)] == ["a status of 401 (Unauthorized)"] * 3


WITHOUT_CAPTION = """() => {
  const left = document.querySelectorAll("#said, .words, .legend, .name, #models, .wide, #speech");
  for (const each of left) each.style.display = "none";
  return document.body.innerText;
}"""
NAMES = {"JSONL", "SRT", "TextGrid", "dBFS", "learned", "nats", "specdec"}
"""Words that both languages have."""


def test_both_languages(visit, served, clip):
    made = visit(served.url, READY, language="zh-CN")
    made.tab.set_input_files("#file", clip)
    assert captioned(made)
    assert made.tab.locator("#said").get_attribute("lang") == "zh"
    chinese = made.tab.evaluate(WITHOUT_CAPTION)
    assert "一个人怎样说话？" in chinese
    assert set(re.findall("[A-Za-z]{3,}", chinese)) <= NAMES
    made.tab.locator("#speech").evaluate("(button) => button.click()")
    english = made.tab.evaluate(WITHOUT_CAPTION)
    assert "How does someone speak?" in english
    assert not re.findall("[\u4e00-\u9fff]+", english)
    assert made.tab.locator("#said").get_attribute("lang") == "zh"  # the caption's own
