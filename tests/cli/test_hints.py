"""Every option that a message names exists, in the command that the message speaks of."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import specdec_cli
from specdec_cli.cli.app import COMMANDS, load
from specdec_cli.cli.options import OPTIONS

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


def flags_of(name: str) -> set[str]:
    """All spellings that a command takes."""
    command = load(name)
    members = command.commands.values() if hasattr(command, "commands") else [command]
    return {
        flag.lstrip("-")
        for member in members
        for parameter in member.params
        if not parameter.hidden
        for flag in (*parameter.opts, *parameter.secondary_opts)
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
        if module == "cli/options.py" or module == "serve/relay.py":
            continue
        commands = next((names.split() for start, names in ALONE.items() if module.startswith(start)), list(COMMANDS))
        for flag in re.findall(r"(?<![\w-])--([a-z][a-z-]*[a-z])", text):
            if flag not in OF_OTHERS and not any(flag in flags[name] for name in commands):
                wrong.append(f"{module}:{line}: --{flag} in {text!r}")
    assert wrong == []


def test_an_option_means_the_same_in_every_command() -> None:
    """The table has one meaning for each name; commands differ at most in the default of a few."""
    from importlib import import_module

    kinds: dict[str, set[object]] = {}
    for name in COMMANDS:
        module = import_module(f"specdec_cli.cli.{name}")
        for function in (module.show, module.validate) if name == "config" else (getattr(module, name),):
            for parameter in function.own.values():
                kinds.setdefault(parameter.name, set()).add((str(parameter.annotation), parameter.default))
    different = {name for name, found in kinds.items() if len(found) > 1}
    assert {name for name in different if len({kind for kind, _ in kinds[name]}) > 1} <= {
        "output",
        "paths",
        "transcripts",
    }
    assert set(kinds) <= {*OPTIONS, "given"}
    spellings = Counter(flag for option in OPTIONS.values() for flag in option.flags)
    twice = {flag for flag, count in spellings.items() if count > 1}
    # always the file that a command is for, its kind, a mode, and how much of the input is taken
    assert twice <= {"--output", "-o", "--to", "--mode", "--limit"}
