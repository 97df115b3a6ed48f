"""Every option that a message names exists, in the command that the message speaks of."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import specdec_cli
from specdec_cli.cli.app import COMMANDS, load

PACKAGE = Path(specdec_cli.__file__).parent
OF_OTHERS = {
    "api-key", "max-logprobs", "max-model-len", "served-model-name", "enable-scale-out", "head", "reload",
    "rtt-ms", "mbps", "default-chat-template-kwargs", "install-completion", "help", "version",
}  # fmt: skip
"""Options of vLLM, Ray, pip, the relay, and of the root command."""
ALONE = {
    "captioner.py": "caption batch compare",
    "cli/caption.py": "caption",
    "cli/batch.py": "batch",
    "cli/compare.py": "compare",
    "cli/tune.py": "tune",
    "cli/bench.py": "bench",
    "cli/serve.py": "serve",
    "cli/doctor.py": "doctor",
    "cli/judging.py": "compare tune",
    "batch/": "batch",
    "compare/journal.py": "compare",
    "compare/plan.py": "compare",
    "tune/": "tune caption",  # what to caption with afterwards
    "serve/listen.py": "serve",
}
"""Beginning of a module's path -> the commands whose user may read its messages; elsewhere any command."""


def parameters_of(name: str) -> list[Any]:
    """The options of a command, or of all members of a group."""
    command = load(name)
    members = command.commands.values() if hasattr(command, "commands") else [command]
    return [parameter for member in members for parameter in member.params if parameter.param_type_name == "option"]


def flags_of(name: str) -> set[str]:
    """All spellings that a command takes."""
    return {
        flag.lstrip("-") for parameter in parameters_of(name) for flag in (*parameter.opts, *parameter.secondary_opts)
    }


def sentences() -> Iterator[tuple[str, int, str]]:
    """Module, line and text of every string in the package that is no docstring and names an option."""
    for path in sorted(PACKAGE.rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
        documents = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in documents:
                continue
            if re.search(r"(?<![\w-])--[a-z]", node.value):
                yield str(path.relative_to(PACKAGE)), node.lineno, node.value


def test_every_option_in_a_message_exists_where_it_is_read() -> None:
    flags = {name: flags_of(name) for name in COMMANDS}
    wrong = []
    for module, line, text in sentences():
        if module == "cli/options.py":
            continue
        commands = next((names.split() for start, names in ALONE.items() if module.startswith(start)), list(COMMANDS))
        for flag in re.findall(r"(?<![\w-])--([a-z][a-z-]*[a-z])", text):
            if flag not in OF_OTHERS and not any(flag in flags[name] for name in commands):
                wrong.append(f"{module}:{line}: --{flag} in {text!r}")
    assert wrong == []


def test_an_option_means_the_same_in_every_command() -> None:
    meanings: dict[str, set[str]] = {}
    for name in COMMANDS:
        for parameter in parameters_of(name):
            meanings.setdefault(parameter.opts[0], set()).add(parameter.help)
    # what the command is for; the mode to decode in, or whose captions to take
    assert {flag for flag, helps in meanings.items() if len(helps) > 1} == {"--output", "--mode"}


def test_caption_has_at_most_30_options_and_the_decoding_ones_last() -> None:
    panels = list(dict.fromkeys(parameter.rich_help_panel for parameter in parameters_of("caption")))
    assert len(parameters_of("caption")) <= 30
    assert panels == ["Models and settings", "Caption", "Input", "Output", "Decoding", None]
