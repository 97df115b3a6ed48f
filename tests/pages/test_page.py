"""The report as a file: what is in it, that it fetches nothing, and that no text in it can become markup."""

import base64
import hashlib
import io
import re
from itertools import chain
from unittest.mock import Mock

import numpy as np
import pytest
import soundfile

from specdec_cli.evaluate import comparison as evaluate
from specdec_cli.evaluate.result import ClipError
from specdec_cli.format import share, times
from specdec_cli.labels import Lexicon
from specdec_cli.pages.sound import pieces_of
from tests.mini_pair import RATE, captioner, voice
from tests.pages.read_page import Page
from tests.pages.sample import MODES, Runs, comparison, page_of

EVIL = "</script><img src=x onerror='document.title=1'><script>document.title='broken'</script>{{ 7*7 }}<!--\u2028"


@pytest.fixture(scope="module")
def read(page) -> Page:
    return Page(page.read_text(encoding="utf-8"))


def hostile(runs: Runs) -> tuple[Runs, object]:
    """The same runs, with markup wherever text comes from outside."""
    evil_runs: Runs = {}
    for mode, transcripts in runs.items():
        evil_runs[mode] = []
        for transcript in transcripts:
            rounds = [
                each.model_copy(update={"committed_pieces": (EVIL,) * len(each.source)}) for each in transcript.rounds
            ]
            changes = {"file": EVIL, "caption": EVIL, "prompt": EVIL, "rounds": rounds}
            evil_runs[mode].append(transcript.model_copy(update=changes))
    made = comparison(runs)
    texts = {"file": EVIL, "captions": dict.fromkeys(MODES, EVIL), "reference": EVIL, "reference_texts": [EVIL]}
    clips = [clip.model_copy(update=texts | {"reference_labels": {"rate": EVIL}}) for clip in made.clips]
    error = ClipError(file=EVIL, start_s=None, modes=["edge"], type="AudioDecodeError", message="It failed.")
    changes = {
        "clips": clips, "prompt": EVIL, "headline": [EVIL], "errors": [error], "settings": {EVIL: EVIL},
        "attributes": ["rate", EVIL],
    }  # fmt: skip
    return evil_runs, made.model_copy(update=changes)


def test_every_clip_and_mode_is_in_it(read, runs):
    data = read.data()
    assert data["modes"] == list(MODES)
    assert [clip["name"] for clip in data["clips"]] == ["voice 0.wav", "voice 1.wav", "voice 2.wav"]
    for index, clip in enumerate(data["clips"]):
        for mode in MODES:
            assert clip["captions"][mode] == runs[mode][index].caption
            assert len(clip["runs"][mode]["rounds"]) == len(runs[mode][index].rounds)


def test_classes_stand_against_what_is_measured(read):
    for clip in read.data()["clips"]:
        for mode in MODES:
            said = {claim: fits for claim, fits in clip["measured"][mode] if claim.endswith("syllables/s")}
            assert len(said) == 1
            assert f"{clip['labels'][mode]['rate']} rate · " in next(iter(said))


def test_the_summary_stands_without_a_script(read, runs):
    found = comparison(runs)
    hybrid, cloud = (found.costs[found.modes.index(mode)] for mode in ("hybrid", "cloud"))
    assert hybrid.escalation_rate
    assert cloud.total_s.to_edge
    for words in (
        *found.headline,
        share(hybrid.escalation_rate.value),
        times(cloud.total_s.to_edge.value),
        "of edge-only's",
        "always naming the commonest class would be right in",
        "ROUGE-L",
        "voice from label_voice",
        "references found for 3 of 3 clips",
    ):
        assert words in read.text


def test_nothing_is_fetched(page, read):
    for tag, attributes in read.elements:
        assert tag not in ("iframe", "object", "embed", "link", "base", "video", "source")
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            assert attributes.get(name, "#").startswith(("#", "data:image/svg+xml;base64,")), (tag, attributes)
        assert not any(name == "style" or name.startswith("on") for name in attributes)
    source = page.read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\s\"'<]+", source)) <= {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert not re.search(r"@import|url\(", source)


def test_the_policy_allows_what_is_there_and_nothing_else(read):
    policy = dict(part.strip().split(" ", 1) for part in read.meta("Content-Security-Policy").split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["media-src"] == "blob:"
    executed = [
        content for tag, attributes, content in read.sources if tag == "script" and attributes.get("type") == "module"
    ]
    styles = [content for tag, _, content in read.sources if tag == "style"]
    assert len(executed) == 1
    for name, sources in (("script-src", executed), ("style-src", styles)):
        digests = [base64.b64encode(hashlib.sha256(source.encode()).digest()).decode() for source in sources]
        assert set(policy[name].split()) == {f"'sha256-{digest}'" for digest in digests}


def test_the_audio_is_the_recording(read, runs):
    sounds = {
        a["id"]: content
        for tag, a, content in read.sources
        if tag == "script" and (a.get("id") or "").startswith("audio-")
    }
    assert list(sounds) == ["audio-1", "audio-2", "audio-3"]
    for number, transcript in enumerate(runs["edge"], 1):
        samples, rate = soundfile.read(io.BytesIO(base64.b64decode(sounds[f"audio-{number}"])))
        assert len(samples) / rate == pytest.approx(transcript.duration_s, abs=0.1)


def test_markup_in_any_text_stays_text(runs):
    evil_runs, made = hostile(runs)
    found = Page(page_of(made, evil_runs))
    scripts = [a.get("type") for tag, a, _ in found.sources if tag == "script"]
    assert scripts == ["application/json", "module"]
    assert not any(tag == "img" for tag, _ in found.elements)
    assert found.text.count(EVIL) >= 5  # headline, file of the error, prompt, setting and its value
    clip = found.data()["clips"][0]
    assert clip["captions"]["hybrid"] == clip["reference_texts"][0] == clip["file"] == EVIL
    assert clip["runs"]["edge"]["rounds"][0]["tokens"][0][0] == EVIL
    assert clip["missing"]
    assert "{{" not in re.sub(re.escape(EVIL), "", found.text)


def test_a_recording_that_is_gone_leaves_a_sentence(runs):
    moved = {
        mode: [run.model_copy(update={"file": f"/nowhere/gone {number}.wav"}) for number, run in enumerate(own)]
        for mode, own in runs.items()
    }
    clip = Page(page_of(comparison(moved), moved)).data()["clips"][0]
    assert clip["sound"] is None
    assert "gone 0.wav" in clip["missing"]
    assert clip["runs"]["edge"]["rounds"]


def test_nothing_compared_is_still_a_page(runs):
    nothing = comparison(
        runs, clips=[], costs=[], quality=[], gaps=[], audio_s=0.0, unfinished=2, headline=["No clip was finished."]
    )
    found = Page(page_of(nothing, {mode: [] for mode in MODES}))
    assert "No clip was finished." in found.text
    assert "2 clips were not finished" in found.text
    assert "Cost" not in found.text
    assert "Quality" not in found.text


def test_a_page_holds_so_much_audio_and_says_of_the_rest_that_it_has_none(runs, monkeypatch):
    monkeypatch.setattr("specdec_cli.evaluate.page.AUDIO_MB", 0.0)
    text = page_of(comparison(runs), runs)
    assert 'id="audio-1"' not in text
    assert "3 clips cannot be played: the page would be too large with their audio." in text


def test_the_pieces_of_a_recording_are_read_once_and_each_has_its_own_sound(tmp_path, monkeypatch):
    path = tmp_path / "two.wav"
    soundfile.write(path, np.concatenate([voice(1, 1.0), voice(2, 2.0)]), RATE)
    reading = Mock(wraps=pieces_of)
    monkeypatch.setattr("specdec_cli.evaluate.page.pieces_of", reading)
    modes = ("edge", "cloud")
    runs = {
        mode: list(captioner(decoding__mode=mode, prompt__language="en", audio__segment=1.5).captions(path))
        for mode in modes
    }
    compared = evaluate.comparison([*chain(*runs.values())], Lexicon.load())
    found = Page(page_of(compared, runs)).data()
    assert [clip["sound"]["seconds"] for clip in found["clips"]] == [1.5, 1.5]
    assert [clip["start_s"] for clip in found["clips"]] == [0.0, 1.5]
    assert reading.call_count == 1
