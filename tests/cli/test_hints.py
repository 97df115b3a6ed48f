"""Every option that a message names exists, and means the same wherever it does."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import specdec_cli
from specdec_cli.cli.app import COMMANDS, CONTEXT, command_named

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
