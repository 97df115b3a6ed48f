"""`specdec bench`: what a caption costs on this machine, against transformers' own generate on the same clips."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated, Final

import typer

from specdec_cli.cli.configured import Given, configured

_WHAT: Final = "What is measured"
_OUTPUT: Final = "Output"


@configured("language", "k", "gate", "threshold", "stop_drafting", "max_new_tokens")
def bench(
    given: Given,
    clips: Annotated[
        str | None,
        typer.Option(
            "--clips",
            metavar="PATH",
            help="A recording, or a folder of them. [default: the samples of the source tree]",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    rounds: Annotated[
        int, typer.Option("--rounds", metavar="N", min=1, help="Times through all clips.", rich_help_panel=_WHAT)
    ] = 5,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.", rich_help_panel=_OUTPUT)] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress, errors only.", rich_help_panel=_OUTPUT)
    ] = False,
    debug: bool = False,
) -> None:
    """Measure the models' steps, the loop around them, and tokens/s of every mode and of transformers' generate."""
    from specdec_cli.cli.benching import Benching, Request

    request = Request(
        config=given.resolve({"decoding.mode": "hybrid"}),
        clips=clips,
        rounds=rounds,
        json=json,
        command=shlex.join(["specdec", *sys.argv[1:]]),
    )
    Benching(request, quiet=quiet, debug=debug).run()
