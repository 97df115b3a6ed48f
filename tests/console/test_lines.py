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
from specdec_cli.console.rounds import layout_for
from specdec_cli.console.view import PlainView, View
from specdec_cli.errors import AudioContentError
from specdec_cli.types import EventText, Mode, Round
from tests.console.screens import COLOUR, Screen, play, shown
from tests.console.script import CLIPS, CUT, EN, LOOP, LOSSLESS, ZH, Clip, build, started, step


@pytest.mark.parametrize("width", [*range(40, 100, 7), 53, 54, 61, 62, 75, 76, 95, 96, 110, 130, 160, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for name in ("zh", "en", "partial", "edge", "lossless"):
        screen = shown(CLIPS[name], width)
        assert max(map(cell_len, screen.lines)) <= width, name
        if width >= 50:
            assert not any(line.rstrip().endswith("…") for line in screen.lines if line[:4].strip().isdigit())


@pytest.mark.parametrize("width", [1, 5, 12, 20, 30])
def test_a_tiny_terminal_breaks_nothing(width: int) -> None:
    assert max(map(cell_len, shown(ZH, width).lines)) <= width


@pytest.mark.parametrize("width", [76, 80, 100, 160])
@pytest.mark.parametrize("clip", [ZH, EN])
def test_columns_align_whatever_the_language(width: int, clip: Clip) -> None:
    column, rows = 0, 0
    for line in shown(clip, width).lines:
        if line.lstrip().startswith("#"):
            column = line.index("gate")
        elif column and line[:5].strip().isdigit():
            rows += 1
            before_gate = re.split("edge|cloud:|entropy|loop", line)[0]
            assert cell_len(before_gate) == column
    assert rows == sum(isinstance(event, Round) for event, _ in clip.events)


@pytest.mark.parametrize("width", [60, 100])
@pytest.mark.parametrize("clip", [ZH, EN])
def test_every_entropy_stands_under_its_word(width: int, clip: Clip) -> None:
    lines = shown(clip, width).lines
    rounds = [(event, text) for event, text in clip.events if isinstance(event, Round)]
    nats = [
        float(value.rstrip("!")) for line in lines if " entropy " in line for value in re.findall(r"\d\.\d\d!?", line)
    ]
    shown_values = [value for round_, _ in rounds for value in round_.entropy]
    assert all(value in nats for value in shown_values)


def test_columns_give_way_with_the_width() -> None:
    def names(width: int, mode: Mode = "hybrid", link: bool = False) -> list[str]:
        return [column.name for column in layout_for(width, 5, mode, link=link).columns]

    assert names(120, link=True) == ["#", "", "block", "gate", "accepted", "draft", "verify", "link"]
    assert names(80) == ["#", "", "block", "gate", "acc.", "draft+verify"]
    assert names(60) == ["#", "gate", "acc.", "draft+verify"]
    assert names(40) == ["#", "gate", "acc."]
    assert names(100, "edge") == names(100, "cloud") == ["#", "", "block", "time"]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("defer", [True, False])
def test_a_long_draft_keeps_all_its_tokens_and_figures(width: int, defer: bool) -> None:
    draft = "/".join(f" word{index}" for index in range(40))
    clip = build(started("a.wav", "en", k=40, defer=defer), [step(draft, " ".join(["2.0"] * 40), "entropy", " end")])
    output = "\n".join(shown(clip, width).lines)
    table = output[output.index("prefilled") : output.rindex(" caption ")]
    assert table.count("2.00!") == 40
    assert all(f"word{index}" in table for index in range(40))
    if defer:
        assert "entropy 2.00, at or above 1.2: the cloud verifies the draft" in " ".join(table.split())
        assert "40/40 accepted" in " ".join(table.split())


def test_why_the_cloud_was_asked() -> None:
    output = shown(EN, 120).output
    assert "cloud: entropy 1.64" in output
    assert "cloud: loop" in output
    assert "1/5" in output
    assert "the cloud verified 4 of 10 rounds (40%)" in output
    assert "accepted 7 of 20 drafted tokens (35%) · 3 corrections · 1 bonus" in output
    assert "20.8 tokens/s" in output


def test_a_margin_gate_reports_its_smallest_margin() -> None:
    round_ = Round(
        0, (1, 2), (0.1, 2.0), (0.9, 0.07), True, "margin", 2, (1, 2), ("accepted", "accepted"), 1.0, 9.0, 0.07
    )
    screen = Screen(100)
    view = LiveView(screen, redraw=False, with_caption=False)
    view.started(started("a.wav", "en", gate="margin", threshold=0.1))
    view.event(round_, EventText(("a", "b"), ("a", "b"), "ab"))
    assert "cloud: margin 0.07" in screen.output


def test_an_end_that_is_not_eos_is_told() -> None:
    assert "(loop)" in shown(LOOP, 100).output
    assert "(sentences)" in shown(CUT, 100).output
    assert "(eos)" not in shown(EN, 100).output
    assert "the cloud verified every round" in shown(LOSSLESS, 100).output


def test_of_a_lossless_run_without_its_cloud_it_is_told_how_many_rounds_were_verified() -> None:
    rounds = [event for event, _ in LOSSLESS.events if isinstance(event, Round)]
    assert verified(rounds, "lossless") == "the cloud verified every round"
    rounds[-1] = dataclasses.replace(rounds[-1], escalated=False)
    assert verified(rounds, "lossless") == f"the cloud verified {len(rounds) - 1} of {len(rounds)} rounds"


def test_a_link_gets_its_column_once_it_is_known() -> None:
    lines = shown(ZH, 120).lines
    assert [" ".join(line.split()[:2]) for line in lines if "link" in line] == ["# block", "link 1"]
    assert any("1 exchange" in line and "on the link" in line for line in lines)
    assert any("18 ms" in line for line in lines)


def test_near_ties_are_counted_in_the_totals() -> None:
    def tied(*counts: int) -> Clip:
        left = list(counts)
        events = [
            (dataclasses.replace(event, near_ties=left.pop(0)), text)
            if isinstance(event, Round) and event.escalated and left
            else (event, text)
            for event, text in EN.events
        ]
        return Clip(EN.started, tuple(events))

    assert "near tie" not in shown(EN, 100).output
    assert "near tie" not in shown(tied(0, 0), 100).output
    assert "1 near tie:" in shown(tied(0, 1), 100).output
    assert "2 near ties: best scores that the cloud's number format cannot tell apart" in shown(tied(1, 1), 100).output


def test_what_a_checkpoint_suggests_is_shown_and_nothing_that_is_null() -> None:
    penalty = {"repetition_penalty": 1.1}
    open_ = {"repetition_penalty": None, "no_repeat_ngram": None, "min_new_tokens": None}

    def settings(suggested: dict[str, object]) -> str:
        clip = dataclasses.replace(EN, started=started("a.wav", "en", **open_, suggested=suggested))
        return " ".join(shown(clip, 160).output.split())

    assert "repetition_penalty 1.1 (suggested by the edge's checkpoint)" in settings({"edge": penalty})
    assert settings({"edge": penalty, "cloud": penalty}).count("1.1 (suggested by both checkpoints)") == 1
    both = settings({"edge": penalty, "cloud": {"suppressed": 3}})
    assert "repetition_penalty 1.1 (suggested by the edge's checkpoint)" in both
    assert "suppressed 3 tokens (suggested by the cloud's checkpoint)" in both
    for none in (settings({}), both):
        assert "None" not in none
        assert "null" not in none


def test_models_and_settings_are_told_once() -> None:
    screen = Screen(100)
    view = LiveView(screen, redraw=False, with_caption=False)
    for file in ("a.wav", "b.wav"):
        play(view, dataclasses.replace(EN, started=dataclasses.replace(EN.started, file=file)))
    play(view, ZH)
    assert screen.output.count("specdec-mini-edge") == 2
    assert "a.wav" in screen.output
    assert "b.wav" in screen.output


def test_a_segment_says_where_it_lies() -> None:
    part = dataclasses.replace(EN.started, start_s=61.5, end_s=65.0)
    assert "61.5 s to 65.0 s" in shown(dataclasses.replace(EN, started=part), 100).output


def test_no_color_keeps_signs_and_drops_colours() -> None:
    plain, coloured = shown(ZH, 100, terminal=True, no_color=True), shown(ZH, 100, terminal=True)
    assert COLOUR.search(coloured.output)
    assert not COLOUR.search(plain.output)
    assert plain.lines == coloured.lines
    assert all(sign in plain.output for sign in "✓✗→+")


def test_another_encoding_gets_ascii_signs() -> None:
    screen = shown(EN, 100, encoding="ascii")
    assert re.search(r"=a +~slow +-pace\|, +with", screen.output)
    assert screen.output.isascii()
    assert "\\x" not in screen.output
    assert "\\u" not in screen.output


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


def test_events_before_a_clip_are_a_mistake() -> None:
    with pytest.raises(RuntimeError, match="before any clip"):
        LiveView(Screen(80), redraw=False).event(EN.events[0][0], EN.events[0][1])


def test_settings_take_two_lines_at_most() -> None:
    many: dict[str, object] = {f"a_rather_long_setting_{index}": index for index in range(40)}
    given = {"k": 5, "gate": "entropy", "threshold": 1.0} | many
    head = dataclasses.replace(started("a.wav", "en"), settings=given)
    screen = shown(dataclasses.replace(EN, started=head), 80)
    lines = [line for line in screen.lines if "rather_long" in line]
    assert len(lines) <= 2
    assert lines[-1].endswith("…")


def heading(screen: Screen) -> str:
    return " ".join(screen.output.split())


@pytest.mark.parametrize(
    ("settings", "legend"),
    [
        ({"gate": "entropy", "threshold": 1.2}, "entropy of each token, nats; ! at or above 1.2"),
        (
            {"gate": "learned", "threshold": 0.113},
            "entropy of each token, nats; learned: probability that the cloud changes the token; ! at or above 0.113",
        ),
        (
            {"gate": "learned", "threshold": 0.1, "wake": 0.4},
            "! at or above 0.4 until the cloud has been called, then 0.1",
        ),
        ({"gate": "margin", "threshold": 0.3}, "margin: p(likeliest) - p(second); ! at or below 0.3"),
        ({"gate": "never", "threshold": None}, "figures entropy of each token, nats"),
    ],
)
def test_the_legend_explains_the_figures_and_every_sign(settings: dict[str, object], legend: str) -> None:
    screen = shown(dataclasses.replace(EN, started=started("a.wav", "en", **settings)), 100)
    assert legend in heading(screen)
    assert "+bonus | between tokens" in heading(screen)


def test_the_digest_of_a_gate_is_no_setting_to_read() -> None:
    head = started("a.wav", "en", gate="learned", threshold=0.1, gate_weights="cc809e5a4d563628")
    assert "cc809e5a" not in shown(dataclasses.replace(EN, started=head), 160).output


@pytest.mark.parametrize(("width", "cell"), [(60, "23+prefill"), (120, "prefill")])
def test_a_verification_within_the_prefill_is_not_given_the_time_of_what_was_left(width: int, cell: str) -> None:
    screen = shown(ZH, width)
    rows = [line for line in screen.lines if re.match(r"\s+[23]  ", line)]
    assert rows[0].rstrip().endswith(cell)
    assert "112 ms" in rows[1] or "+112 ms" in rows[1]
    assert "prefill with first verification 48 ms" in heading(screen)
    early = shown(dataclasses.replace(ZH, started=started("a.wav", "zh", cloud_prefill="early")), width)
    assert "first verification" not in heading(early)
    assert "prefill " not in next(line for line in early.lines if re.match(r"\s+2  ", line))


@pytest.mark.parametrize("redraw", [True, False])
def test_an_interruption_is_said_with_what_is_kept(redraw: bool) -> None:
    screen = Screen(100, terminal=redraw)
    view = LiveView(screen, redraw=redraw)
    view.interrupted(None)
    assert "interrupted: nothing was captioned yet" in heading(screen)
    play(view, EN)
    view.started(ZH.started)
    view.interrupted(None)
    assert "interrupted: 1 caption finished, no transcript kept (--output keeps them)" in heading(screen)
    play(view, ZH)
    view.interrupted(Path("out.jsonl"))
    assert "interrupted: 2 captions finished and kept in out.jsonl" in heading(screen)


def test_a_log_says_that_it_was_interrupted_and_quiet_does_not() -> None:
    for kind in (PlainView, View):
        screen = Screen(100)
        view = kind(screen)
        view.interrupted(Path("out.jsonl"))
        assert ("interrupted: nothing was captioned yet" in screen.output) == (kind is PlainView)


def test_quiet_does_not_hide_that_a_caption_lacks_the_cloud() -> None:
    finished, text = EN.events[-1]
    degraded = dataclasses.replace(finished, degraded="the cloud does not answer")  # type: ignore[type-var]
    screen = Screen(100)
    play(View(screen), Clip(EN.started, (*EN.events[:-1], (degraded, text))))  # type: ignore[arg-type]
    assert screen.output == "warning: samples/angry_en.wav: degraded: the cloud does not answer\n"


@pytest.mark.parametrize("kind", [View, PlainView, partial(LiveView, redraw=False)])
def test_every_view_says_what_makes_a_caption_no_description(kind: Callable[[Screen], View]) -> None:
    finished, text = EN.events[-1]
    flagged = dataclasses.replace(text, flags=("refusal", "no_speech"))
    clip, screen = Clip(EN.started, (*EN.events[:-1], (finished, flagged))), Screen(100)  # type: ignore[arg-type]
    view = kind(screen)
    play(view, clip)
    play(view, clip)
    view.finished_all(2, 0)
    said = "refused by the model; without speech (may be invented)"
    assert " ".join(screen.output.split()).count(said) == 2
    assert ("2 without speech (may be invented), 2 refused by the model" in screen.output) == (kind is not View)


WARNINGS = (f"The instruction {HOSTILE} is not the models' own.", "No lexicon has labels for captions in English.")


@pytest.mark.parametrize("width", [40, 100])
def test_the_heading_has_the_warnings_of_the_prompt_and_repeats_none_for_the_next_clip(width: int) -> None:
    screen = Screen(width)
    view = LiveView(screen, redraw=False)
    for file in ("a.wav", "b.wav"):
        play(view, dataclasses.replace(EN, started=dataclasses.replace(EN.started, file=file, warnings=WARNINGS)))
    lines = [line for line in screen.lines if line.startswith(" warning  ")]
    assert len(lines) == len(WARNINGS)
    words = heading(screen)
    assert words.index("prompt ") < words.index("warning The instruction") < words.index("warning No lexicon")
    assert "for captions in English. signs" in words
    assert "\x1b" not in screen.output


def test_a_log_has_a_line_for_each_warning() -> None:
    screen = Screen(60)
    PlainView(screen).started(dataclasses.replace(EN.started, warnings=WARNINGS))
    first, *warnings, end = screen.lines
    assert first.startswith("samples/angry_en.wav: 3.72 s")
    assert warnings == [f"warning: {clean(warning)}" for warning in WARNINGS]
    assert end == ""
    assert "warning" not in shown(EN, 100).output


@pytest.mark.parametrize(("no_speech", "told"), [(True, 1), (False, 0), (None, 0)])
def test_a_clip_in_which_no_speech_was_found_is_marked(no_speech: bool | None, told: int) -> None:
    head = dataclasses.replace(EN.started, no_speech=no_speech)
    for live in (False, True):
        screen = Screen(100)
        view = LiveView(screen, redraw=False) if live else PlainView(screen)
        view.started(head)
        assert [line.count("no speech found") for line in screen.lines if "angry_en.wav" in line] == [told]
    quiet = Screen(100)
    View(quiet).started(head)
    assert quiet.output == ""


@pytest.mark.parametrize("live", [False, True])
def test_the_last_line_counts_captions_that_the_cloud_had_no_part_in(live: bool) -> None:
    finished, text = EN.events[-1]
    degraded = dataclasses.replace(finished, degraded="the cloud does not answer")  # type: ignore[type-var]
    screen = Screen(100)
    view = LiveView(screen, redraw=False) if live else PlainView(screen)
    for clip in (EN, Clip(EN.started, (*EN.events[:-1], (degraded, text)))):  # type: ignore[arg-type]
        play(view, clip)
    view.finished_all(2, 0)
    assert "1 by the edge alone: the cloud failed" in screen.lines[-2]
