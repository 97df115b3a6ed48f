"""The commands, their help, and what their exit codes mean."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from inspect import getdoc
from typing import Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException
from typer.main import get_command

from specdec_cli.cli.options import PANELS, Command
from specdec_cli.errors import BROKEN_PIPE_STATUS, DEGRADED_STATUS, ConfigError


class Listed(NamedTuple):
    """A command in the list of commands; its module, `cli/NAME.py`, is imported when it is used."""

    group: str
    class_name: str  # of the `Command` that it makes, whose `run` does the work
    summary: str
    examples: tuple[str, ...]  # the arguments of each


_CAPTION, _JUDGE, _USE, _SET_UP = "Caption", "Compare with what is right", "Use captions", "Serve and set up"
COMMANDS: Final = {
    "caption": Listed(
        _CAPTION,
        "CaptionCommand",
        "Caption recordings, one after the other.",
        (
            "recording.wav --language en",
            "interview.mp4 --segment pauses -o interview.srt",
            "recordings/ -o captions.jsonl --export textgrid,csv",
        ),
    ),
    "batch": Listed(
        _CAPTION,
        "BatchCommand",
        "Caption many recordings, several at a time.",
        (
            "recordings/ -o captions.csv",
            "--manifest table.tsv -o captions.jsonl --export textgrid",
            "--retry-failed -o captions.jsonl",
        ),
    ),
    "listen": Listed(
        _CAPTION,
        "ListenCommand",
        "Caption what a microphone records, utterance by utterance.",
        ("--language en", "-o talk.jsonl --save talk/", "--device list"),
    ),
    "compare": Listed(
        _JUDGE,
        "CompareCommand",
        "Compare modes on the same recordings: quality, time, forwards.",
        (
            "recordings/ --limit 20 -o page.html",
            "recordings/ --references truth.tsv --column emotion=mood",
            "recordings/ --mode edge,cloud -o compared.jsonl --json",
        ),
    ),
    "tune": Listed(
        _JUDGE,
        "TuneCommand",
        "Measure both models on your recordings, and suggest when to call the large one.",
        (
            "recordings/ --references truth.tsv -o tuned.yaml",
            "recordings/ -o tuned.yaml -o frontier.svg",
            "recordings/ --budget time=0.5 --traces traces.jsonl",
        ),
    ),
    "export": Listed(
        _USE,
        "ExportCommand",
        "Write transcripts as tables, for Praat and ELAN, as subtitles or as pictures.",
        ("captions.jsonl --to textgrid,srt", "captions.jsonl -o captions.csv", "captions.jsonl -o talk.png"),
    ),
    "review": Listed(
        _USE,
        "ReviewCommand",
        "Make a page to listen to captioned recordings and correct their classes.",
        (
            "captions.jsonl",
            "captions.jsonl -o review.html --audio-mb 200",
            "captions.jsonl --references truth.tsv --limit 200",
        ),
    ),
    "serve": Listed(
        _SET_UP,
        "ServeCommand",
        "Serve captions, a page, and the cloud to edges elsewhere.",
        (
            "",
            "--host 0.0.0.0 --token-env SPECDEC_TOKEN --config my.yaml",
            "--mode cloud --cloud Qwen/Qwen2.5-Omni-7B",
        ),
    ),
    "doctor": Listed(
        _SET_UP,
        "DoctorCommand",
        "Check the installation and the configured models.",
        ("", "--quick", "--config qwen2.5-omni"),
    ),
    "config": Listed(
        _SET_UP,
        "ShowCommand",
        "Show the settings of a run, and where each comes from.",
        ("", "gate --config my.yaml", "--gate margin --threshold 0.2"),
    ),
}

EXIT_CODES: Final = {
    0: "all done",
    1: "a recording failed, or one of several files was not written",
    2: "the command line, the configuration or an input file is wrong or missing",
    3: "a model, a server, a device or the disk cannot be used",
    DEGRADED_STATUS: "all captioned, but the cloud failed, and the edge wrote some captions without it",
    129: "its terminal was closed",
    130: "interrupted",
    BROKEN_PIPE_STATUS: "the reader of stdout has gone",
    143: "terminated",
}
"""What the exit code of every command means."""

CONTEXT: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
"""Options that print help, and its widest line, characters."""
_STYLE: Final[dict[str, Any]] = {
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "context_settings": CONTEXT,
}


@cache
def command_named(name: str) -> Any:
    """What typer makes of the class that `COMMANDS` names; of `config` a group with one command, `show`."""
    listed = COMMANDS[name]
    command: type[Command] = getattr(import_module(f"specdec_cli.cli.{name}"), listed.class_name)
    group = typer.Typer(name=name, help=listed.summary, add_completion=False, **_STYLE)
    if name == "config":
        group.callback(invoke_without_command=True)(_print_help)
    lines = [f"  specdec {command.name} {example}".rstrip() for example in listed.examples]
    epilog = "\n".join(["\b", "Examples:", *lines])
    says = f"{listed.summary}\n\n{getdoc(command)}"
    group.command(command.name.split()[-1], cls=_Command, help=says, epilog=epilog)(command)
    return get_command(group)


class _Command(TyperCommand):
    """A command whose help lists its options by panel."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes a section for each panel."""
        panels: dict[str, list[tuple[str, str]]] = {panel: [] for panel in ("Arguments", *PANELS, "Other")}
        parameter: Any
        for parameter in self.get_params(ctx):
            if record := parameter.get_help_record(ctx):
                argument = parameter.param_type_name == "argument"
                panel = "Arguments" if argument else parameter.rich_help_panel or "Other"
                spelled = parameter.metavar if argument else record[0]
                panels[panel].append((spelled, record[1]))
        for panel, records in ((panel, records) for panel, records in panels.items() if records):
            with formatter.section(panel):
                formatter.write_dl(records)


class _Commands(TyperGroup):
    """The commands, listed in groups. Help and completion take names and summaries; what is used is imported."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that `args` begin with, and the rest of them; of an unknown one in completion None."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else command_named(name), rest

    def format_commands(self, _: Any, formatter: Any) -> None:
        """Writes a section for each group."""
        for group in dict.fromkeys(listed.group for listed in COMMANDS.values()):
            with formatter.section(group):
                formatter.write_dl([(name, of.summary) for name, of in COMMANDS.items() if of.group == group])


def _print_help(context: typer.Context) -> None:
    """Prints the help of a group, and ends with an error, if no command is named."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


app = typer.Typer(
    name="specdec",
    cls=_Commands,
    help="Describe how a person speaks: a small edge model drafts, a large cloud model checks what it is unsure of.",
    epilog="\n".join(["\b", "Exit codes:", *(f"  {code:<3} {meaning}" for code, meaning in EXIT_CODES.items())]),
    **_STYLE,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from specdec_cli import __version__

        typer.echo(f"specdec {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    _print_help(context)


for _name, _listed in COMMANDS.items():
    app.command(_name, help=_listed.summary)(lambda: None)  # `_Commands` imports what is used


def parse_command_line() -> Command | int:
    """The command that `sys.argv` names: an object of its class in `COMMANDS`, whose fields are the options.

    Typer calls that class as it would call a function, with the options, and returns what it makes. An exit code if
    help or the version was printed. Raises ConfigError if the command line is malformed.
    """
    try:
        parsed: Command | int = app(prog_name="specdec", standalone_mode=False)
    except TyperException as error:
        context = getattr(error, "ctx", None)
        hint = f"See {'specdec' if context is None else context.command_path} --help."
        raise ConfigError(error.format_message(), hint=hint) from None
    return parsed
