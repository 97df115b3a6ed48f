"""The commands and how they end."""

from __future__ import annotations

import gc
import io
import os
import sys
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from specdec_cli.cli.options import PANELS
from specdec_cli.errors import BROKEN_PIPE_STATUS, ConfigError, SpecdecError, as_specdec_error

COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "caption": (
        "Caption recordings, one after the other.",
        "recording.wav --language en",
        "interview.mp4 --segment pauses -o interview.srt",
        "recordings/ --labels -o captions.jsonl --export textgrid,csv",
        "recording.wav --config qwen2.5-omni",
    ),
    "batch": (
        "Caption many recordings, several at a time.",
        "recordings/ -o captions.jsonl --export csv",
        "--manifest table.tsv --labels --measure -o captions.jsonl",
        "--retry-failed -o captions.jsonl",
    ),
    "listen": (
        "Caption what a microphone records, utterance by utterance.",
        "--language en",
        "-o talk.jsonl --save talk/",
        "--device list",
    ),
    "compare": (
        "Compare modes on the same recordings.",
        "recordings/ --limit 20 -o page.html",
        "recordings/ --references truth.tsv --column emotion=mood",
        "recordings/ --mode edge,cloud -o compared.jsonl --json",
    ),
    "tune": (
        "Find the best gate for your own recordings.",
        "recordings/ -o tuned.yaml -o frontier.svg",
        "recordings/ --budget time=0.5 --traces traces.jsonl",
    ),
    "review": (
        "Make a page to listen and correct classes.",
        "captions.jsonl -o review.html",
        "captions.jsonl --references truth.tsv --limit 200",
    ),
    "calibrate": (
        "Fit a calibration of class probabilities.",
        "captions.jsonl --references truth.tsv -o calibration.json",
    ),
    "export": (
        "Write transcripts in the formats of other tools.",
        "captions.jsonl --to textgrid,srt",
        "captions.jsonl -o captions.csv",
        "captions.jsonl -o talk.png",
    ),
    "serve": (
        "Serve captions, a page, and the cloud to edges elsewhere.",
        "",
        "--host 0.0.0.0 --token-env SPECDEC_TOKEN --config my.yaml",
        "--mode cloud --cloud Qwen/Qwen2.5-Omni-7B",
    ),
    "doctor": ("Check the installation and the configured models.", "", "--quick", "--config qwen2.5-omni"),
    "config": ("Show the settings of a run, and where they come from.",),
}
"""Command -> what it does, and arguments for examples; its module is imported when it is used."""

_CONFIG_EXAMPLES: Final = {"show": ("", "gate --config my.yaml", "--gate margin --threshold 0.2")}

EXIT_CODES: Final = {
    0: "all done",
    1: "a recording failed, or one of several files was not written",
    2: "the command line, the configuration or an input file is wrong or missing",
    3: "a model, a server, a device or the disk cannot be used",
    130: "interrupted",
    BROKEN_PIPE_STATUS: "the reader of stdout has gone",
    143: "terminated",
}
"""What the exit code of every command means."""

_UsageError: Any = typer.BadParameter.__mro__[1]
CONTEXT: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
"""Options that print help, and its widest line, characters."""
_STYLE: Final[dict[str, Any]] = {
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "context_settings": CONTEXT,
}


@cache
def load(name: str) -> Any:
    """The command of a name, or the group `config`, from its module."""
    module = import_module(f"specdec_cli.cli.{name}")
    group = typer.Typer(name=name, help=COMMANDS[name][0], add_completion=False, no_args_is_help=True, **_STYLE)
    if name == "config":
        group.callback()(lambda: None)  # so that a group with one command stays a group
    for function, examples in (_CONFIG_EXAMPLES if name == "config" else {name: COMMANDS[name][1:]}).items():
        path = f"{name} {function}" if name == "config" else name
        lines = [f"  specdec {path} {example}".rstrip() for example in examples]
        group.command(function, cls=_Command, epilog="\n".join(["\b", "Examples:", *lines]))(getattr(module, function))
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
    """The commands, each imported when it is used."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that `args` name, with the rest of them."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, load(str(name)) if name in COMMANDS else found, rest


app = typer.Typer(
    name="specdec",
    cls=_Commands,
    help="Describe how a person speaks: a small edge model drafts, a large cloud model checks what it is unsure of.",
    epilog="\n".join(["\b", "Exit codes:", *(f"  {code:<3} {meaning}" for code, meaning in EXIT_CODES.items())]),
    no_args_is_help=True,
    **_STYLE,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from specdec_cli import __version__

        typer.echo(f"specdec {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


for _name, (_summary, *_) in COMMANDS.items():
    app.command(_name, help=_summary)(lambda: None)


def main() -> None:
    """Runs the command line; every error becomes a sentence, a hint and an exit code."""
    debug = "--debug" in sys.argv
    prepare_process()
    _open_standard_streams()
    try:
        raise SystemExit(app(prog_name="specdec", standalone_mode=False))
    except SystemExit as end:  # rich and click exit with 1 where the reader of stdout has gone
        gone = isinstance(end.__context__, BrokenPipeError) or not _flushed()
        raise SystemExit(BROKEN_PIPE_STATUS if gone else end.code) from None
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message(), err=True)
        else:
            message, hint = error.format_message(), f"See {error.ctx.command_path if error.ctx else 'specdec'} --help."
            _report(ConfigError(message, hint=hint), debug)
        raise SystemExit(2) from None
    except Exception as error:
        known = as_specdec_error(error)
        _report(known, debug)
        raise SystemExit(known.status) from None


def prepare_process() -> None:
    """Adjusts OpenMP, oneDNN and Python to a process that runs one command. Variables that the user has set stay.

    OpenMP threads that wait for work do not spin: beside a busy process a clip would take 20 s instead of 0.5 s. oneDNN
    keeps its code for 64 shapes, not for a thousand, which take 250 MB, and PyTorch what it prepares of them for 4 in
    each thread, not for a thousand either: 1 MB each. Threads take turns of 0.1 ms, since a step of the decoder takes
    0.4 ms and Python's turns 5 ms. The garbage collector searches the libraries' objects less often.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    os.environ.setdefault("LRU_CACHE_CAPACITY", "4")
    sys.setswitchinterval(1e-4)
    gc.set_threshold(50_000, 20, 100)


def _open_standard_streams() -> None:
    """Reopens standard streams that are closed (`2>&-`): else the next file, such as a transcript, becomes stderr."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    sys.stdin = sys.stdin or io.TextIOWrapper(io.FileIO(0, closefd=False), "utf-8")
    sys.stdout = sys.stdout or io.TextIOWrapper(io.FileIO(1, "w", closefd=False), "utf-8")
    sys.stderr = sys.stderr or io.TextIOWrapper(io.FileIO(2, "w", closefd=False), "utf-8")


def _flushed() -> bool:
    """Flushes stdout, or drops what cannot be written; False if its reader has gone."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return not isinstance(error, BrokenPipeError)
    return True


def _report(error: SpecdecError, debug: bool) -> None:
    from specdec_cli.console.plain import print_error

    print_error(error, debug=debug)
    _flushed()
