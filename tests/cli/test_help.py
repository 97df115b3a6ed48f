"""Help, version and completion: quick, complete, and without PyTorch; and options that messages name."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

import specdec_cli
from specdec_cli import __version__
from specdec_cli.cli import main
from specdec_cli.cli.app import COMMANDS, CONTEXT, EXIT_CODES, command_named
from tests.cli.harness import environment, process

HEAVY = ("torch", "transformers", "tokenizers", "av", "soundfile", "scipy")
LIGHT = [
    ["--help"],
    ["caption", "--help"],
    ["tune", "--help"],
    ["compare", "--mode", "edge", "missing.wav"],
    ["config", "show"],
    ["config", "show", "--gate", "entropy", "-c", "qwen2.5-omni"],
    ["batch", "--manifest", "missing.tsv", "-o", "o.jsonl"],
    ["caption", "-k", "0", "missing.wav"],
    ["caption", "--json", "-q", "missing.wav"],
]
PROBE = f"""
import json, resource, sys
from specdec_cli.cli import main

done = []
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["specdec", *arguments]
    try:
        main()
    except SystemExit as end:
        used = resource.getrusage(resource.RUSAGE_SELF)
        seconds = used.ru_utime + used.ru_stime
        done.append((arguments, end.code, [name for name in {HEAVY} if name in sys.modules], seconds))
print(json.dumps(done), file=sys.stderr)
"""


def probe(*commands: list[str]) -> list[tuple[list[str], int | None, list[str], float]]:
    """Runs commands in turn in a fresh process: arguments, exit code, heavy modules, CPU seconds since its start."""
    arguments = [sys.executable, "-c", PROBE, json.dumps(commands)]
    done = subprocess.run(arguments, capture_output=True, env=environment(), check=True, text=True)
    return [tuple(one) for one in json.loads(done.stderr.splitlines()[-1])]


@pytest.mark.slow
def test_what_needs_no_model_loads_nothing_heavy_and_help_takes_no_second():
    done = probe(*LIGHT)
    assert done[0][3] < 1.0  # CPU seconds from the interpreter's start; below 0.25 on an idle machine
    assert len(done) == len(LIGHT)
    for arguments, code, heavy, _ in done:
        assert code in (None, 0, 1, 2), arguments
        assert heavy == [], arguments


def test_help_is_there_for_every_command(specdec):
    parts = re.split(r"^(?=[A-Z][a-z ]+:$)", specdec("--help").out, flags=re.MULTILINE)
    listed = [re.findall(r"^  ([a-z]+)  ", part, re.MULTILINE) for part in parts]
    groups = ["caption batch listen", "compare tune", "export review", "serve doctor config"]
    assert [" ".join(names) for names in listed if names] == groups
    assert [*COMMANDS] == [*chain.from_iterable(listed)]
    for command in COMMANDS:
        outcome = specdec(command, "--help", ends=0)
        assert outcome.out.startswith(f"Usage: specdec {command}")
        assert outcome.err == ""
        assert max(map(len, outcome.lines)) <= 80
    shown = " ".join(specdec("-h").out.split())
    assert shown == " ".join(specdec("--help").out.split())
    assert list(EXIT_CODES) == [0, 1, 2, 3, 4, 129, 130, 141, 143]
    assert all(f"{code} {meaning}" in shown for code, meaning in EXIT_CODES.items())
    page = (Path(__file__).parents[2] / "docs" / "exit-codes.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) \| (.*?)(?: \(.*\))? \|$", page, re.MULTILINE)
    assert {int(code): meaning for code, meaning in rows} == EXIT_CODES


def test_help_of_a_command_is_at_most_60_lines_of_100_characters_with_three_examples(specdec, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    for command in COMMANDS:
        lines = specdec(command, *(["show"] if command == "config" else []), "--help", ends=0).lines
        assert len(lines) <= 60, command
        assert max(map(len, lines)) <= 100, command
        assert len(lines) - [line.strip() for line in lines].index("Examples:") == 4, command


def test_every_example_is_a_command_line_that_is_taken():
    commands = {name: command_named(name) for name in COMMANDS if name != "config"}
    commands |= {f"config {name}": command for name, command in command_named("config").commands.items()}
    for name, command in commands.items():
        _, *examples = [line for line in command.epilog.splitlines() if line != "\b"]
        assert examples, name
        for example in examples:
            words = example.split()[1 + len(name.split()) :]
            assert example.startswith(f"  specdec {name}")
            assert command.make_context(name, words, **CONTEXT).args == []


def test_no_command_prints_help_and_is_an_error(specdec):
    outcome = specdec(ends=2)
    assert "Usage: specdec" in outcome.out + outcome.err


def test_python_m_is_the_command():
    outcome = process("--version")
    assert (outcome.code, outcome.out, outcome.err) == (0, f"specdec {__version__}\n", "")


# --- completion in the shell, by the protocol that the installed scripts speak ---

WORDS = [
    ("specdec ca", {"caption"}),
    ("specdec config ", {"show"}),
    ("specdec caption --mode l", {"lossless"}),
    ("specdec caption --gate log", {"logprob"}),
    ("specdec batch --mode ", {"hybrid", "lossless", "edge", "cloud"}),
    ("specdec tune --refe", {"--references"}),
]


@pytest.mark.parametrize(("line", "expected"), WORDS, ids=[line for line, _ in WORDS])
def test_bash_completes_commands_options_and_values(line, expected, monkeypatch, capfd):
    monkeypatch.setattr(sys, "argv", ["specdec"])
    monkeypatch.setenv("_SPECDEC_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(line.count(" ")))
    with pytest.raises(SystemExit):
        main()
    assert set(capfd.readouterr().out.split()) == expected


def test_completion_installs(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    monkeypatch.setattr(sys, "argv", ["specdec", "--install-completion", "bash"])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    assert "specdec" in (tmp_path / ".bashrc").read_text()


# --- options in messages ---

PACKAGE = Path(specdec_cli.__file__).parent
OF_OTHERS = {
    *("api-key", "max-logprobs", "max-model-len", "served-model-name", "default-chat-template-kwargs"),  # vLLM
    *("enable-scale-out", "head", "reload", "rtt-ms", "mbps"),  # Ray, uvicorn, the relay
    *("repo-type", "local-dir"),  # hf
    *("install-completion", "help", "version"),  # the root command
}


def parameters_of(name: str) -> list[Any]:
    """The options of a command, or of all members of a group."""
    command = command_named(name)
    members = command.commands.values() if hasattr(command, "commands") else [command]
    return [parameter for member in members for parameter in member.params if parameter.param_type_name == "option"]


def sentences() -> Iterator[tuple[str, str]]:
    """Place and text of every string in the package that is no docstring."""
    for path in sorted(PACKAGE.rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
        documents = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
                yield f"{path.relative_to(PACKAGE)}:{node.lineno}", node.value


def test_every_option_in_a_message_exists():
    options = [option for name in COMMANDS for option in parameters_of(name)]
    known = {flag.lstrip("-") for option in options for flag in (*option.opts, *option.secondary_opts)} | OF_OTHERS
    named = [
        (place, flag) for place, text in sentences() for flag in re.findall(r"(?<![\w-])--([a-z][a-z-]*[a-z])", text)
    ]
    assert len(named) > 100
    assert [(place, flag) for place, flag in named if flag not in known] == []


def test_an_option_means_the_same_in_every_command():
    meanings: dict[str, set[str]] = {}
    for name in COMMANDS:
        for parameter in parameters_of(name):
            meanings.setdefault(parameter.opts[0], set()).add(parameter.help)
    # what is written; one of them or several
    several = {"--output", "--batch-size", "--mode", "--gate", "-k"}
    assert {flag for flag, helps in meanings.items() if len(helps) > 1} == several


def test_options_of_caption_stand_in_panels():
    command = command_named("caption")
    help_ = command.get_help(command.context_class(command, info_name="specdec caption", **CONTEXT))
    panels = re.findall(r"^([A-Z][a-z ]+):$", help_, re.MULTILINE)
    assert panels == ["Arguments", "Models and settings", "Captions", "Input", "Output", "Other"]
