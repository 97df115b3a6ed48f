"""What is shown: the screens that are kept, and what holds of any screen."""

from functools import partial

import pytest
from rich.cells import cell_len

from specdec_cli.console.tables import doctor_page, print_page
from specdec_cli.errors import AudioContentError
from specdec_cli.transcript.records import ModelInfo, Models
from tests.console.scenes import CHECKS, FILES, GOLDEN, PIPED, TERMINAL, shown, text_of
from tests.console.screens import COLOUR, Screen, play, viewed
from tests.console.script import HOSTILE, build, started, step
from tests.tiers import few


@pytest.mark.parametrize("file", FILES)
def test_a_screen_is_as_it_is_kept(file):
    kept = (GOLDEN / file).read_text("utf-8")
    assert text_of(shown(file)) == kept, "if this is what users should read: python -m tests.console.scenes"


def test_every_file_is_of_a_scene_and_pipes_get_no_escapes():
    assert {path.name for path in GOLDEN.iterdir()} == {*FILES}
    assert not any("\x1b" in shown(file).output for file in FILES if file.split(".")[0] in PIPED)


@pytest.mark.parametrize("width", few([12, 53, 80, 200, 1, 5, 20, 30, 60, 75, 76, 95, 110, 160], 4))
def test_no_line_is_wider_than_the_terminal(width):
    for name, (_, scene) in TERMINAL.items():
        screen = Screen(width, terminal=True)
        scene(screen)
        assert max(map(cell_len, screen.lines)) <= width, name


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("k", ["whole", 40])
def test_a_long_draft_keeps_all_its_tokens_and_figures(width, k):
    draft = "/".join(f" word{index}" for index in range(40))
    screen, view = viewed(width, "rows")
    play(view, build(started("a.wav", "en", k=k), [step(draft, " ".join(["2.0"] * 40), "entropy", " end")]))
    found = " ".join(screen.output.split())
    table = found[found.index("prefilled") : found.rindex(" rounds the cloud ")]
    assert table.count("2.00!") == 40
    assert all(f"word{index}" in table for index in range(40))
    assert "40/40 accepted" in table
    assert "gate the cloud is called: 2.00 ≥ 1.2 · drafted in 184 ms cloud" in table
    assert f"settings k {k} · gate entropy" in found


def test_no_color_keeps_signs_and_drops_colours():
    for name in ("modes", "compare"):
        plain, coloured = (Screen(100, terminal=True, no_color=no_color) for no_color in (True, False))
        for screen in (plain, coloured):
            TERMINAL[name][1](screen)
        assert COLOUR.search(coloured.output)
        assert not COLOUR.search(plain.output)
        assert plain.lines == coloured.lines


def test_what_an_encoding_lacks_is_a_question_mark():
    screen = Screen(100, encoding="ascii")
    print_page(partial(doctor_page, CHECKS[:1]), screen)
    assert screen.lines[0] == "? ok  python  3.11.2"


@pytest.mark.parametrize("form", ["rows", "live"])
def test_names_and_captions_are_never_obeyed(form):
    screen, view = viewed(160, form)
    head = started(HOSTILE, "en", gate="[blink]")
    edge = ModelInfo(name=HOSTILE, dtype="fp16", device="cpu")
    head = head.model_copy(update={"models": Models(edge=edge, cloud=None), "prompt": HOSTILE})
    with view.loading(HOSTILE):
        pass
    play(view, build(head, [step(f" {HOSTILE}/[/]", "0.1 0.1")]))
    view.failed(HOSTILE, AudioContentError(f"silent: {HOSTILE}", hint=HOSTILE))
    view.close()
    assert not [each for each in ("\x1b]0", "\x1b[2J", "\x07", "\u202e") if each in screen.output]
    assert screen.output.count("[bold red]x[/] :smile:") >= 6
    assert "[blink]" in screen.output
