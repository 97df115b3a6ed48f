import json
import subprocess
import sys
from functools import partial

import pytest
from rich.cells import cell_len

from specdec_cli.console.plain import print_error
from specdec_cli.console.tables import ONE_LINE, config_page, doctor_page, print_page
from specdec_cli.errors import AudioContentError, CheckpointError
from tests.console.screens import Screen

ROWS: list[tuple[str, object, str]] = [
    ("k", 5, "default"),
    ("threshold", 1.2, "command line"),
    ("edge.path", "/模型/a-rather-long-path/to/the/edge/model/with/more/parts/than/fit", "config file specdec.yaml"),
    ("overlap", False, "default"),
    ("prompt", "[red]markup[/]\x1b[31m", "environment SPECDEC_PROMPT"),
    ("seed", None, "default"),
]
CHECKS = [
    ("python", "ok", "3.11.2"),
    ("麦克风", "warn", "no recording device was found, which matters only for live captions"),
    ("edge model", "fail", "[bold]no such folder[/]: /模型/edge"),
]


@pytest.mark.parametrize("width", [30, 40, 60, 80, 120, 200])
def test_tables_fit_a_terminal(width):
    config, doctor = Screen(width, terminal=True), Screen(width, terminal=True)
    print_page(partial(config_page, ROWS), config, piped_width=ONE_LINE)
    print_page(partial(doctor_page, CHECKS), doctor)
    for screen in (config, doctor):
        assert max(map(cell_len, screen.lines)) <= width
        assert "\x1b[31m." not in screen.output


def test_a_piped_table_has_one_line_a_row():
    screen = Screen(40)
    print_page(partial(config_page, ROWS), screen, piped_width=ONE_LINE)
    lines = screen.lines[:-1]
    assert len(lines) == len(ROWS)
    assert lines[0].split() == ["k", "5", "default"]
    assert lines[3].split() == ["overlap", "false", "default"]
    assert "[red]markup[/]\\x1b[31m" in lines[4]
    assert len({cell_len(line[: line.rindex("default")]) for line in lines if line.endswith("default")}) == 1


def test_checks_have_a_sign_a_word_and_a_verdict():
    screen = Screen(100)
    print_page(partial(doctor_page, CHECKS), screen)
    assert "✓ ok    python" in screen.output
    assert "! warn  麦克风" in screen.output
    assert "✗ fail  edge model  [bold]no such folder[/]" in screen.output
    assert screen.lines[-2] == "1 problem, 1 warning."
    healthy = Screen(100, encoding="ascii")
    print_page(partial(doctor_page, [("python", "ok", "3.11.2")]), healthy)
    assert healthy.lines == ["? ok  python  3.11.2", "", "No problem found.", ""]


def test_an_error_is_a_sentence_and_a_hint():
    error = CheckpointError("the weights hold 3 tensors\nand 4 were expected", hint="Download the model again.")
    screen = Screen(40)
    print_error(error, file="a.wav", console=screen)
    assert screen.output == (
        "error: a.wav: the weights hold 3 tensors and 4 were expected\nhint: Download the model again.\n"
    )
    wrapped = Screen(40, terminal=True)
    print_error(error, console=wrapped)
    assert max(map(cell_len, wrapped.lines)) <= 40
    assert wrapped.lines[1].startswith("       ")


def test_a_hint_names_the_options_of_settings():
    screen = Screen(40)
    print_error(AudioContentError("too long", hint="Lower audio.segment or decoding.top_k."), console=screen)
    assert screen.lines[1] == "hint: Lower audio.segment (--segment) or decoding.top_k."


def test_importing_the_console_loads_no_torch():
    code = "import json, sys, specdec_cli.console.view; print(json.dumps([*{'torch', 'numpy'} & {*sys.modules}]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert json.loads(done.stdout) == []
