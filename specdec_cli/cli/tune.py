"""`specdec tune`: which gate, threshold and block size to take, by measurement on one's own recordings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specdec_cli.cli import judging
from specdec_cli.cli.configured import Given, configured

_WHAT = "What is tried"
_OUTPUT = "Output"


@configured("language", "style", "prompt", "accept", "max_new_tokens")
def tune(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH", help="Recordings, folders, patterns; - for a list on stdin.", show_default=False
        ),
    ],
    gate: Annotated[
        str | None,
        typer.Option(
            "--gate",
            metavar="GATE,GATE",
            help="Gates that compete. [default: entropy,margin,logprob,learned]",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    ks: Annotated[
        str, typer.Option("--ks", metavar="K,K", help="Tokens drafted per block.", rich_help_panel=_WHAT)
    ] = "2,3,5",
    budget: Annotated[
        float,
        typer.Option(
            "--budget",
            metavar="SHARE",
            min=0.0,
            max=1.0,
            help="Most blocks to escalate, 0 to 1.",
            rich_help_panel=_WHAT,
        ),
    ] = 0.3,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Folders inside folders too.", rich_help_panel=_WHAT)
    ] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="The first N recordings.", rich_help_panel=_WHAT)
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            "--seed", metavar="S", min=0, help="Of the split, the random gate, the bootstrap.", rich_help_panel=_WHAT
        ),
    ] = 0,
    *,
    given: Given,
    references: judging.Table = None,
    file_column: judging.FileColumn = None,
    text_column: judging.TextColumn = None,
    label: judging.Label = None,
    lexicon: judging.Words = None,
    recordings: Annotated[
        Path | None,
        typer.Option(
            "--recordings",
            metavar="JSONL",
            help="Append what is recorded and run here; run again, only what is missing is done.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write the recommended gate here (.json).", rich_help_panel=_OUTPUT
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot", metavar="FILE", help="Draw the frontier into this file (.svg).", rich_help_panel=_OUTPUT
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print everything found as one JSON object.", rich_help_panel=_OUTPUT)
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress, errors only.", rich_help_panel=_OUTPUT)
    ] = False,
    debug: bool = False,
) -> None:
    """Find the gate that buys most of the cloud's quality for the fewest questions, on recordings of your own.

    Records every clip once with both models, replays all settings on one half of the clips, and runs the best of
    them on the other half. Needs no references: without them quality is agreement with the cloud's caption.
    """
    from specdec_cli.cli.tuning import Request, Tuning, parse_gates, parse_ks

    gates, sizes = parse_gates(gate), parse_ks(ks)
    resolved = given.resolve({"decoding.mode": "hybrid"})
    request = Request(
        config=resolved.config,
        paths=tuple(paths),
        recursive=recursive,
        limit=limit,
        gates=gates,
        ks=sizes,
        budget=budget,
        seed=seed,
        judging=judging.Judging(
            references, file_column, tuple(text_column or ()), tuple(label or ()), lexicon, False, seed
        ),
        recordings=recordings,
        output=output,
        plot=plot,
        json=json,
        reads=(references, lexicon, *given.reads(resolved)),
    )
    code = Tuning(request, quiet=quiet, debug=debug).run()
    if code:
        raise typer.Exit(code)
