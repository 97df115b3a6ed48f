"""The printed lines of a run, at every width: heading, rounds, totals, the last line."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from rich.cells import cell_len

from specdec_cli.console.cells import clean
from specdec_cli.console.clip import verified
from specdec_cli.console.live import LiveView
from specdec_cli.console.view import PlainView, View
from specdec_cli.errors import AudioContentError
from specdec_cli.types import Claim, Finished, Measured, Round, Started
from tests.console.screens import COLOUR, Screen, play, shown
from tests.console.script import CLIPS, CUT, EN, LOOP, LOSSLESS, ZH, Clip, build, started, step


def words(screen: Screen) -> str:
    return " ".join(screen.output.split())


def starting(clip: Clip, started: Started | None = None, **change: object) -> Clip:
    return dataclasses.replace(clip, started=dataclasses.replace(started or clip.started, **change))


def ending(clip: Clip, *, degraded: str | None = None, **text: object) -> Clip:
    *events, (finished, last) = clip.events
    assert isinstance(finished, Finished)
    end = dataclasses.replace(finished, degraded=degraded), dataclasses.replace(last, **text)  # type: ignore[arg-type]
    return Clip(clip.started, (*events, end))


@pytest.mark.parametrize("width", [1, 5, 12, 20, 30, 40, 53, 60, 75, 76, 80, 95, 110, 120, 160, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for name in ("zh", "en", "partial", "edge", "lossless"):
        screen = shown(CLIPS[name], width)
        assert max(map(cell_len, screen.lines)) <= width, name


@pytest.mark.parametrize("width", [76, 80, 100, 160])
@pytest.mark.parametrize("clip", [ZH, EN])
def test_decisions_stand_in_one_column_whatever_the_language(width: int, clip: Clip) -> None:
    rows = [line for line in shown(clip, width).lines if re.match(r" {6,7}\d+ ", line)]
    assert len(rows) == sum(isinstance(event, Round) for event, _ in clip.events)
    assert len({cell_len(re.split("edge|cloud:", row)[0]) for row in rows}) == 1


@pytest.mark.parametrize("width", [60, 100])
@pytest.mark.parametrize("clip", [ZH, EN])
def test_every_entropy_stands_under_its_word(width: int, clip: Clip) -> None:
    lines = shown(clip, width).lines
    nats = [
        float(value.rstrip("!")) for line in lines if " entropy " in line for value in re.findall(r"\d\.\d\d!?", line)
    ]
    assert all(value in nats for event, _ in clip.events if isinstance(event, Round) for value in event.entropy)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("defer", [True, False])
def test_a_long_draft_keeps_all_its_tokens_and_figures(width: int, defer: bool) -> None:
    draft = "/".join(f" word{index}" for index in range(40))
    clip = build(started("a.wav", "en", k=40, defer=defer), [step(draft, " ".join(["2.0"] * 40), "entropy", " end")])
    found = words(shown(clip, width))
    table = found[found.index("prefilled") : found.rindex(" rounds the cloud ")]
    assert table.count("2.00!") == 40
    assert all(f"word{index}" in table for index in range(40))
    assert "40/40 accepted" in table
    assert ("entropy 2.00, at or above 1.2: the cloud verifies the draft" in table) == defer
    assert ("settings block the whole draft (k does not count) · gate entropy" in found) == defer
    assert ("settings k 40" in found) != defer


def test_the_heading_says_where_a_block_ends_before_k_tokens() -> None:
    found = words(shown(starting(EN, started("a.wav", "en", stop_drafting=True)), 120))
    assert "k 5 at most · gate entropy" in found
    assert "stop_drafting" not in found


@pytest.mark.parametrize("width", [60, 120])
def test_an_unjudged_token_is_told_from_a_rejected_one(width: int) -> None:
    clip = build(started("a.wav", "en", defer=True), [step("one/ two/ three", "2 2 2", "entropy", " 2", accepted=1)])
    found = words(shown(clip, width))
    assert "✗rejected -not judged" in found
    assert "✓one ✗two -three →2" in found


def test_a_round_says_why_it_was_escalated_and_what_that_brought() -> None:
    found = words(shown(EN, 120))
    assert "cloud: entropy 1.64 · 1/5 accepted" in found
    assert "cloud: loop · 0/5 accepted" in found
    assert "draft 23 ms · verify 112 ms" in found
    assert "the cloud verified 4 of 10 rounds (40%)" in found
    assert "accepted 7 of 20 drafted tokens (35%) · 3 corrections · 1 bonus" in found
    assert "20.8 tokens/s" in found
    assert "1 exchange · 0.02 s on the link" in words(shown(ZH, 120))
    assert "verify 112 ms · link 18 ms" in words(shown(ZH, 60))


def test_an_end_that_is_not_eos_is_told() -> None:
    assert "(loop)" in shown(LOOP, 100).output
    assert "(sentences)" in shown(CUT, 100).output
    assert "(eos)" not in shown(EN, 100).output


def test_of_a_lossless_run_without_its_cloud_it_is_told_how_many_rounds_were_verified() -> None:
    rounds = [event for event, _ in LOSSLESS.events if isinstance(event, Round)]
    assert verified(rounds, "lossless") == "the cloud verified every round"
    rounds[-1] = dataclasses.replace(rounds[-1], escalated=False)
    assert verified(rounds, "lossless") == f"the cloud verified {len(rounds) - 1} of {len(rounds)} rounds"


@pytest.mark.parametrize(
    ("counts", "line"), [((0, 0), ""), ((0, 1), "ties 1 near tie:"), ((1, 1), "ties 2 near ties:")]
)
def test_near_ties_are_counted_in_the_totals(counts: tuple[int, int], line: str) -> None:
    left = list(counts)
    events = [
        (dataclasses.replace(event, near_ties=left.pop(0)), text)
        if isinstance(event, Round) and event.escalated and left
        else (event, text)
        for event, text in EN.events
    ]
    found = words(shown(Clip(EN.started, tuple(events)), 100))
    assert line in found
    assert ("near tie" in found) == bool(line)


def test_what_a_checkpoint_suggests_is_shown_and_nothing_that_is_null() -> None:
    penalty = {"repetition_penalty": 1.1}
    open_ = {"repetition_penalty": None, "no_repeat_ngram": None, "min_new_tokens": None}

    def settings(suggested: dict[str, object]) -> str:
        return words(shown(starting(EN, started("a.wav", "en", **open_, suggested=suggested)), 160))

    assert settings({"edge": penalty, "cloud": penalty}).count("1.1 (suggested by both checkpoints)") == 1
    both = settings({"edge": penalty, "cloud": {"suppressed": 3}})
    assert "repetition_penalty 1.1 (suggested by the edge's checkpoint)" in both
    assert "suppressed 3 tokens (suggested by the cloud's checkpoint)" in both
    for none in (settings({}), both):
        assert "None" not in none
        assert "null" not in none


def test_models_and_settings_are_told_once() -> None:
    screen = Screen(100)
    view = LiveView(screen, redraw=False)
    for file in ("a.wav", "b.wav"):
        play(view, starting(EN, file=file))
    play(view, ZH)
    assert screen.output.count("specdec-mini-edge") == 2
    assert "a.wav" in screen.output
    assert "b.wav" in screen.output


def test_a_segment_says_where_it_lies_and_a_long_path_keeps_its_end() -> None:
    assert "61.5 s to 65.0 s" in shown(starting(EN, start_s=61.5, end_s=65.0), 100).output
    for width in (60, 200):
        (line,) = (line for line in shown(starting(EN, file=f"{'a/' * 99}b.wav"), width).lines if "wav" in line)
        assert "/a/b.wav · 3.72 s · en · hybrid" in line


def test_no_color_keeps_signs_and_drops_colours() -> None:
    plain, coloured = shown(ZH, 100, terminal=True, no_color=True), shown(ZH, 100, terminal=True)
    assert COLOUR.search(coloured.output)
    assert not COLOUR.search(plain.output)
    assert plain.lines == coloured.lines
    assert all(sign in plain.output for sign in "✓✗→+")


def test_another_encoding_gets_ascii_signs() -> None:
    screen = shown(EN, 100, encoding="ascii")
    assert re.search(r"=a +~slow +-pace\|, +with >fast", screen.output)
    assert "\\" not in screen.output


HOSTILE = "[bold red]x[/] :smile: \x1b]0;owned\x07\x1b[2J\u202e.wav"


@pytest.mark.parametrize("live", [False, True])
def test_names_and_captions_are_never_obeyed(live: bool) -> None:
    screen = Screen(160, terminal=live)
    view = LiveView(screen, redraw=live)
    head = started(HOSTILE, "en", note="[blink]")
    head = dataclasses.replace(head, edge=HOSTILE, prompt=HOSTILE)
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


@pytest.mark.parametrize(
    ("settings", "legend"),
    [
        ({"gate": "entropy", "threshold": 1.2}, "entropy of each token, nats; ! at or above 1.2"),
        (
            {"gate": "learned", "threshold": 0.1, "wake": 0.4},
            "learned: probability that the cloud changes the token; "
            "! at or above 0.4 until the cloud has been called, then 0.1",
        ),
        ({"gate": "margin", "threshold": 0.3}, "margin: p(likeliest) - p(second); ! at or below 0.3"),
        ({"gate": "never", "threshold": None}, "figures entropy of each token, nats"),
    ],
)
def test_the_legend_explains_the_figures_and_every_sign(settings: dict[str, object], legend: str) -> None:
    found = words(shown(starting(EN, started("a.wav", "en", gate_weights="cc809e5a4d563628", **settings)), 100))
    assert legend in found
    assert "+bonus | between tokens" in found
    assert "cc809e5a" not in found


@pytest.mark.parametrize("width", [60, 120])
def test_a_verification_within_the_prefill_is_not_given_the_time_of_what_was_left(width: int) -> None:
    found = words(shown(ZH, width))
    assert found.count("verify in prefill") == 1
    assert "prefill with first verification 48 ms" in found
    early = words(shown(starting(ZH, started("a.wav", "zh", cloud_prefill="early")), width))
    assert "first verification" not in early
    assert "in prefill" not in early


@pytest.mark.parametrize("kind", [View, PlainView, LiveView, partial(LiveView, redraw=False)])
def test_an_interruption_is_said_with_what_is_kept(kind: Callable[[Screen], View]) -> None:
    screen = Screen(100, terminal=kind is LiveView)
    view = kind(screen)
    view.interrupted(None)
    play(view, EN)
    view.started(ZH.started)
    view.interrupted(None)
    play(view, ZH)
    view.interrupted(Path("out.jsonl"))
    for kept in (
        "nothing was captioned yet",
        "1 caption finished, no transcript kept (--output keeps them)",
        "2 captions finished and kept in out.jsonl",
    ):
        assert (f"interrupted: {kept}" in words(screen)) == (kind is not View)


@pytest.mark.parametrize("kind", [View, PlainView, partial(LiveView, redraw=False)])
def test_every_view_says_what_makes_a_caption_no_description(kind: Callable[[Screen], View]) -> None:
    screen = Screen(60)
    view = kind(screen)
    for _ in range(2):
        play(view, ending(EN, flags=("refusal", "no_speech")))
    view.finished_all(2, 0)
    found = words(screen)
    assert found.count("refused by the model; without speech (may be invented)") == 2
    assert ("2 without speech (may be invented), 2 refused by the model" in found) == (kind is not View)


@pytest.mark.parametrize("width", [60, 100])
@pytest.mark.parametrize("live", [False, True])
def test_the_last_line_counts_captions_that_the_cloud_had_no_part_in(live: bool, width: int) -> None:
    screen = Screen(width)
    view = LiveView(screen, redraw=False) if live else PlainView(screen)
    for clip in (EN, ending(EN, degraded="the cloud does not answer")):
        play(view, clip)
    view.finished_all(2, 0)
    assert words(screen).endswith("2 captioned, 0 failed, 1 by the edge alone: the cloud failed")


def test_quiet_does_not_hide_that_a_caption_lacks_the_cloud() -> None:
    screen = Screen(100)
    play(View(screen), ending(EN, degraded="the cloud does not answer"))
    assert screen.output == "warning: samples/angry_en.wav: degraded: the cloud does not answer\n"


WARNINGS = (f"The instruction {HOSTILE} is not the models' own.", "No lexicon has labels for captions in English.")


@pytest.mark.parametrize("width", [40, 100])
def test_the_heading_has_the_warnings_of_the_prompt_and_repeats_none_for_the_next_clip(width: int) -> None:
    screen = Screen(width)
    view = LiveView(screen, redraw=False)
    for file in ("a.wav", "b.wav"):
        play(view, starting(EN, file=file, warnings=WARNINGS))
    assert len([line for line in screen.lines if line.startswith(" warning  ")]) == len(WARNINGS)
    found = words(screen)
    assert found.index("prompt ") < found.index("warning The instruction") < found.index("warning No lexicon")
    assert "\x1b" not in screen.output


def test_a_log_has_a_line_for_each_warning() -> None:
    screen = Screen(60)
    PlainView(screen).started(dataclasses.replace(EN.started, warnings=WARNINGS))
    first, *warnings, end = screen.lines
    assert first.startswith("samples/angry_en.wav: 3.72 s")
    assert warnings == [f"warning: {clean(warning)}" for warning in WARNINGS]
    assert end == ""


@pytest.mark.parametrize("kind", [View, PlainView, partial(LiveView, redraw=False)])
def test_a_clip_in_which_no_speech_was_found_is_marked(kind: Callable[[Screen], View]) -> None:
    for no_speech in (True, False, None):
        screen = Screen(100)
        kind(screen).started(dataclasses.replace(EN.started, no_speech=no_speech))
        assert ("no speech found" in screen.output) == (no_speech is True and kind is not View)


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
def test_classes_and_figures_and_what_does_not_fit_them_stand_among_the_totals(width: int) -> None:
    screen = shown(ending(starting(EN, measured=FIGURES), labels=LABELS, claims=CLAIMS), width)
    assert max(map(cell_len, screen.lines)) <= width
    found = words(screen)
    assert "labels voice female · rate fast · pitch high · volume loud · emotion angry" in found
    assert "measured F0 110.4 Hz, range 6.23 st, level -24.1 dBFS, 3.10 syllables/s, pauses 8.0%" in found
    assert "agrees pitch, pauses" in found
    assert "differs rate fast, but 3.10 syllables/s (fast: 3.9 or more); volume loud, but -24.1 dBFS" in found


def test_nothing_is_said_of_classes_and_figures_that_nobody_asked_for_or_found() -> None:
    plain = shown(EN, 100).output
    assert not any(f" {name} " in plain for name in ("labels", "measured", "agrees"))
    found = words(shown(ending(starting(EN, measured=Measured(level_dbfs=-30.0)), labels=dict.fromkeys(LABELS)), 100))
    assert "labels none found measured unvoiced, level -30.0 dBFS" in found
    assert "agrees" not in found
