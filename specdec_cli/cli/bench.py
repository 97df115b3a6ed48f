"""`specdec bench`: what a caption costs on this machine, against transformers' own generate on the same clips."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from specdec_cli.cli import options
from specdec_cli.errors import ConfigError

_WHAT: Final = "What is measured"
_OUTPUT: Final = "Output"


@options.configured("language", "k", "gate", "threshold", "stop_drafting", "max_new_tokens")
def bench(
    given: options.Given,
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
    acceptance: Annotated[
        str | None,
        typer.Option(
            "--acceptance",
            metavar="A,A",
            help="Also force drafts to pass with these probabilities, e.g. 0.6,0.8,0.9.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
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
        acceptances=shares(acceptance),
        json=json,
        command=shlex.join(["specdec", *sys.argv[1:]]),
    )
    Benching(request, quiet=quiet, debug=debug).run()


def shares(text: str | None) -> Sequence[float]:
    """The numbers of a list such as "0.6,0.8".

    Raises:
        ConfigError: one of them is no probability.
    """
    found = []
    for part in (text or "").split(",") if text else ():
        try:
            found.append(float(part))
        except ValueError:
            found.append(-1.0)
        if not 0 <= found[-1] <= 1:
            raise ConfigError(
                f"--acceptance takes probabilities from 0 to 1, not {part.strip()!r}.", hint="--acceptance 0.6,0.8,0.9"
            )
    return found
