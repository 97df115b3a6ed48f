"""`specdec bench`: what a caption costs on this machine, against transformers' own generate on the same clips."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import typer

from specdec_cli.cli.configured import Given, configured
from specdec_cli.errors import ConfigError

_WHAT: Final = "What is measured"
_SHAPE: Final = "Full size"
_OUTPUT: Final = "Output"
_DTYPES: Final = ("bfloat16", "float16", "float32", "int8")


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
    acceptance: Annotated[
        str | None,
        typer.Option(
            "--acceptance",
            metavar="A,A",
            help="Also force drafts to pass with these probabilities, e.g. 0.6,0.8,0.9.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    shape: Annotated[
        str | None,
        typer.Option(
            "--shape",
            metavar="3b|7b|EDGE+CLOUD",
            help="Models of a published size with made-up weights, in place of the configured ones.",
            rich_help_panel=_SHAPE,
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            "--dtype",
            metavar="bfloat16|float16|float32|int8",
            help="Of their weights. [default: bfloat16]",
            rich_help_panel=_SHAPE,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="NAME", help="Where to put them. [default: auto]", rich_help_panel=_SHAPE),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.", rich_help_panel=_OUTPUT)] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress, errors only.", rich_help_panel=_OUTPUT)
    ] = False,
    debug: bool = False,
) -> None:
    """Measure the models' steps, the loop around them, and tokens/s of every mode and of transformers' generate."""
    from specdec_cli.cli.benching import Benching, Request, Sizes

    request = Request(
        config=given.resolve({"decoding.mode": "hybrid"}),
        clips=clips,
        rounds=rounds,
        acceptances=shares(acceptance),
        json=json,
        command=shlex.join(["specdec", *sys.argv[1:]]),
    )
    _refuse_unused(shape, {"--clips": clips}, {"--dtype": dtype, "--device": device})
    benching = Benching(request, quiet=quiet, debug=debug)
    if shape is None:
        benching.run()
    else:
        benching.run_full_size(Sizes(shape, _known(dtype or "bfloat16"), device or "auto"))


def _refuse_unused(shape: str | None, of_clips: Mapping[str, object], of_shapes: Mapping[str, object]) -> None:
    """Raises ConfigError if an option is given that would do nothing."""
    unused = [flag for flag, value in (of_shapes if shape is None else of_clips).items() if value is not None]
    if unused:
        why = "without --shape" if shape is None else "with --shape, whose models hear a test sound"
        raise ConfigError(f"{unused[0]} has no effect {why}.", hint="Leave it out.")


def _known(dtype: str) -> str:
    if dtype not in _DTYPES:
        raise ConfigError(f"--dtype {dtype} is none of {', '.join(_DTYPES)}.", hint="Leave it out for bfloat16.")
    return dtype


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
