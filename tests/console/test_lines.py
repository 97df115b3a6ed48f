"""The printed lines of a run, at every width: heading, rounds, totals, the last line."""

import dataclasses
import re

import pytest
from rich.cells import cell_len

from specdec_cli.console.view import View
from specdec_cli.errors import AudioContentError
from specdec_cli.text import clean
from specdec_cli.transcript.records import ModelInfo, Models, Started
from specdec_cli.transcript.round import Round
from specdec_cli.transcript.updates import ClaimsIn
from specdec_cli.types import Claim, Finished, Measured
from tests.console.screens import COLOUR, Screen, play, shown, viewed
from tests.console.script import EDGE, EN, LOOP, LOSSLESS, PARTIAL, ZH, Clip, build, started, step
from tests.tiers import few


def words(screen: Screen) -> str:
    return " ".join(screen.output.split())


def starting(clip: Clip, started: Started | None = None, **change: object) -> Clip:
    return dataclasses.replace(clip, started=(started or clip.started).model_copy(update=change))


def ending(clip: Clip, *, degraded: str | None = None, **text: object) -> Clip:
    *events, (finished, last) = clip.events
    assert isinstance(finished, Finished)
    end = dataclasses.replace(finished, degraded=degraded), dataclasses.replace(last, **text)
    return Clip(clip.started, (*events, end))


@pytest.mark.parametrize("width", few([12, 53, 80, 200, 1, 5, 20, 30, 40, 60, 75, 76, 95, 110, 120, 160], 4))
def test_no_line_is_wider_than_the_terminal(width):
    for clip in (ZH, EN, PARTIAL, EDGE, LOSSLESS):
        assert max(map(cell_len, shown(clip, width).lines)) <= width, clip.started.file


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("k", ["whole", 40])
def test_a_long_draft_keeps_all_its_tokens_and_figures(width, k):
    draft = "/".join(f" word{index}" for index in range(40))
    clip = build(started("a.wav", "en", k=k), [step(draft, " ".join(["2.0"] * 40), "entropy", " end")])
    found = words(shown(clip, width))
    table = found[found.index("prefilled") : found.rindex(" rounds the cloud ")]
    assert table.count("2.00!") == 40
    assert all(f"word{index}" in table for index in range(40))
    assert "40/40 accepted" in table
    assert "gate the cloud is called: 2.00 ≥ 1.2 · drafted in 184 ms cloud" in table
    assert f"settings k {k} · gate entropy" in found


def test_a_round_and_the_totals_say_why_it_was_escalated_and_what_that_brought():
    found = words(shown(EN, 120))
    for fact in (
        "gate the cloud is called: 1.64 ≥ 1.2 · drafted in 23 ms",
        "cloud 1/5 accepted · verified in 112 ms",
        "gate kept: 0.61 < 1.2",
        "gate the cloud is called: loop",
        "the cloud verified 4 of 10 rounds (40%)",
        "accepted 7 of 20 drafted tokens (35%) · 3 corrections · 1 bonus",
        "20.8 tokens/s",
        "a sign holds until the next: edge unmarked ✓accepted ✗rejected -not judged",
        "entropy of each token, nats; blank: 0.00; ! crosses the gate's threshold",
        "labels what the model that decided a class's word believes, in %: too high for new voices",
    ):
        assert fact in found, fact
    assert "stopped by" not in found
    assert "112 ms · 18 ms on the network" in words(shown(ZH, 60))
    assert "1 exchange · 0.02 s" in words(shown(ZH, 120))
    assert "stopped by loop" in words(shown(LOOP, 100))
    assert "the cloud verified every round" in words(shown(LOSSLESS, 100))


def test_models_settings_and_warnings_are_told_once():
    screen, view = viewed(100, "rows")
    for file in ("a.wav", "b.wav"):
        play(view, starting(EN, started(file, "en"), warnings=WARNINGS))
    play(view, ZH)
    assert screen.output.count("specdec-mini-edge") == 2
    assert screen.output.count(" warning  ") == len(WARNINGS)
    assert all(name in screen.output for name in ("a.wav", "b.wav"))
    assert not any(name in screen.output for name in ("\x1b",))


def test_a_piece_says_where_it_lies_and_a_long_path_keeps_its_end():
    assert "61.5 s to 65.0 s" in shown(starting(EN, start_s=61.5, end_s=65.0), 100).output
    for width in (60, 200):
        (line,) = (line for line in shown(starting(EN, file=f"{'a/' * 99}b.wav"), width).lines if "wav" in line)
        assert "/a/b.wav · 3.72 s · en · hybrid" in line


def test_no_color_keeps_signs_and_drops_colours():
    plain, coloured = shown(ZH, 100, terminal=True, no_color=True), shown(ZH, 100, terminal=True)
    assert COLOUR.search(coloured.output)
    assert not COLOUR.search(plain.output)
    assert plain.lines == coloured.lines
    assert all(sign in plain.output for sign in "✓✗→+")


HOSTILE = "[bold red]x[/] :smile: \x1b]0;owned\x07\x1b[2J\u202e.wav"


@pytest.mark.parametrize("form", ["rows", "live"])
def test_names_and_captions_are_never_obeyed(form):
    screen, view = viewed(160, form)
    head = started(HOSTILE, "en", gate="[blink]")
    edge = ModelInfo(name=HOSTILE, dtype="fp16", device="cpu")
    head = head.model_copy(update={"models": Models(edge=edge, cloud=None), "prompt": HOSTILE})
    clip = build(head, [step(f" {HOSTILE}/[/]", "0.1 0.1")])
    with view.loading(HOSTILE):
        pass
    play(view, clip)
    view.failed(HOSTILE, AudioContentError(f"silent: {HOSTILE}", hint=HOSTILE))
    view.close()
    for forbidden in ("\x1b]0", "\x1b[2J", "\x07", "\u202e"):
        assert forbidden not in screen.output
    assert screen.output.count("[bold red]x[/] :smile:") >= 6
    assert "[blink]" in screen.output


@pytest.mark.parametrize("form", ["errors", "lines", "rows"])
def test_every_view_says_what_makes_a_caption_no_description_and_that_the_cloud_failed(form):
    screen, view = viewed(60, form)
    for degraded in (None, "the cloud does not answer"):
        play(view, ending(EN, flags=("refusal", "no_speech"), degraded=degraded))
    found = words(screen)
    told = "refused by the model" + ("" if form == "errors" else "; without speech (may be invented)")
    assert found.count(told) == 2
    assert ("without speech" in found) == (form != "errors")  # which is told once at the end, with times
    assert ("degraded: the cloud" if form == "errors" else "degraded the cloud") + " does not answer" in found


def test_errors_alone_leave_a_contradiction_to_the_mark_behind_the_caption():
    screen = Screen(60)
    play(View(screen, "errors"), ending(EN, flags=("contradicts",)))
    assert screen.output == ""
    play(View(screen, "errors"), ending(EN, flags=("contradicts", "language")))
    assert words(screen).endswith("not in the language asked for")


WARNINGS = (f"The instruction {HOSTILE} is not the models' own.", "No lexicon has labels for captions in English.")


def test_a_log_has_a_line_for_each_warning():
    screen = Screen(60)
    play(View(screen, "lines"), starting(EN, warnings=WARNINGS), 1)
    first, *warnings, end = screen.lines
    assert first.startswith("samples/angry_en.wav: 3.72 s")
    assert warnings == [f"warning: {clean(warning)}" for warning in WARNINGS]
    assert end == ""


@pytest.mark.parametrize("form", ["errors", "lines", "rows"])
def test_a_clip_in_which_no_speech_was_found_is_marked(form):
    for no_speech in (True, False):
        screen = Screen(100)
        play(View(screen, form), starting(EN, flags=("no_speech",) if no_speech else ()), 1)
        assert ("no speech found" in screen.output) == (no_speech and form != "errors")


LABELS = {"voice": "female", "rate": "fast", "pitch": "high", "range": None, "volume": "loud", "emotion": "angry"}
FIGURES = Measured(110.4, 6.23, -24.06, None, 3.1, 0.08)
CLAIMS = (
    Claim("rate", "fast", "rate_per_s", 3.1, 3.9, None),
    Claim("pitch", "low", "f0_median_hz", 110.4, None, 122.0),
    Claim("range", None, "f0_range_st", 6.23, None, None),
    Claim("volume", "loud", "level_dbfs", -24.06, -22.0, None),
    Claim("pauses", "few", "pause_share", 0.08, None, 0.15),
)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_classes_and_figures_and_what_does_not_fit_them_stand_among_the_totals(width):
    screen = shown(ending(starting(EN, measured=FIGURES), labels=LABELS, claims=CLAIMS), width)
    assert max(map(cell_len, screen.lines)) <= width
    found = words(screen)
    assert "labels voice female · rate fast · pitch high · volume loud · emotion angry" in found
    assert "measured F0 110.4 Hz, range 6.23 st, level -24.1 dBFS, 3.10 syllables/s, pauses 8.0%" in found
    fits = (
        "sound fast rate · 3.10 syllables/s ✗; low pitch · 110.4 Hz ✓; loud volume · -24.1 dBFS ✗; few pauses · 8.0% ✓"
    )
    assert fits in found


@pytest.mark.parametrize("form", ["lines", "rows"])
def test_where_nothing_measurable_is_named_nothing_is_shown(form):
    for claims in (None, (), CLAIMS[2:3]):  # not measured, no lexicon with limits, no class named
        screen = Screen(100)
        play(View(screen, form), ending(EN, claims=claims))
        assert not re.search(r"^ *sound ", screen.output, re.MULTILINE)
        assert not re.search("Hz|semitones|syllables/s", screen.output)


def claims_in(text: str) -> tuple[Claim, ...]:
    """As a lexicon would find them in the script's captions."""
    rate = "slow" if "slow" in text else "fast" if "fast" in text else None
    return (
        Claim("rate", rate, "rate_per_s", 7.1, *((None, 5.6) if rate == "slow" else (3.3, None))),
        Claim("volume", "loud" if "loud volume" in text else None, "level_dbfs", -40.0, -22.0, None),
    )


def hearing(clip: Clip, claims: ClaimsIn) -> Clip:
    """The clip whose texts are set against its sound."""
    events = list[tuple[object, object]]()
    for event, text in clip.events:
        if isinstance(event, Round):
            changes = {"draft_text": "".join(event.draft_pieces), "committed_text": "".join(event.committed_pieces)}
            event = event.model_copy(update=changes)
        events.append((event, dataclasses.replace(text, claims_in=claims)))
    return Clip(clip.started, tuple(events))


@pytest.mark.parametrize("width", [80, 120])
def test_a_claim_is_set_against_the_sound_once_under_the_words_that_make_it(width):
    screen = shown(hearing(EN, claims_in), width)
    assert max(map(cell_len, screen.lines)) <= width
    rows = [line.strip() for line in screen.lines]
    assert [row for row in rows if "syllables/s" in row or "dBFS" in row] == [
        "sound fast rate · 7.10 syllables/s ✓",
        "sound loud volume · -40.0 dBFS ✗",
    ]
    (at,) = (number for number, row in enumerate(rows) if row.startswith("sound fast rate"))
    assert "→fast" in "".join(rows[at - 2 : at])
