"""`specdec compare`: modes side by side on the same recordings, with what each costs and how good its captions are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specdec_cli.cli import judging, options
from specdec_cli.cli.configured import Given, configured
from specdec_cli.errors import ConfigError

_WHAT = "What is compared"
_OUTPUT = "Output"


@configured(*(name for name in options.SHARED if name not in ("mode", "seed", "refuse_no_speech")))
def compare(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="Recordings, and folders of recordings.", show_default=False)
    ],
    modes: Annotated[
        str,
        typer.Option("--modes", metavar="MODE,MODE", help="Modes to compare, two or more.", rich_help_panel=_WHAT),
    ] = "edge,hybrid,lossless,cloud",
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Folders inside folders too.", rich_help_panel=_WHAT)
    ] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="The first N recordings.", rich_help_panel=_WHAT)
    ] = None,
    repeat: Annotated[
        int,
        typer.Option("--repeat", metavar="N", min=1, help="Time everything N times over.", rich_help_panel=_WHAT),
    ] = 1,
    *,
    given: Given,
    references: judging.Table = None,
    file_column: judging.FileColumn = None,
    text_column: judging.TextColumn = None,
    label: judging.Label = None,
    lexicon: judging.Words = None,
    bertscore: Annotated[
        bool, typer.Option("--bertscore", help="BERTScore too (needs an extra).", rich_help_panel=judging.PANEL)
    ] = False,
    seed: Annotated[
        int,
        typer.Option(
            "--seed",
            metavar="S",
            min=0,
            help="Of the bootstrap; that of the sampling is --set decoding.seed=S.",
            rich_help_panel=judging.PANEL,
        ),
    ] = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="JSONL",
            help="Append transcripts here; run again, only what is missing is done.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Begin --output anew.", rich_help_panel=_OUTPUT)
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the comparison as one JSON object.", rich_help_panel=_OUTPUT)
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="FILE", help="Write a page with every clip into this file.", rich_help_panel=_OUTPUT
        ),
    ] = None,
    captions: Annotated[
        int,
        typer.Option(
            "--captions",
            metavar="N",
            min=0,
            help="Clips whose captions differ to show side by side.",
            rich_help_panel=_OUTPUT,
        ),
    ] = 10,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress, errors only.", rich_help_panel=_OUTPUT)
    ] = False,
    debug: bool = False,
) -> None:
    """Compare modes on the same recordings: time, forwards, captions, quality.

    Needs no references: without them captions are compared with those of the cloud alone.
    """
    from specdec_cli.cli.comparing import Comparing, Request
    from specdec_cli.compare.plan import parse_modes, richest

    wanted = parse_modes(modes)
    resolved = given.resolve(
        {"decoding.mode": richest(wanted)}, spelled={**options.FLAG_NAMES, "decoding.mode": "--modes"}
    )
    if resolved.config.decoding.mode != richest(wanted):
        raise ConfigError("--set decoding.mode is ignored here.", hint="Say which modes to compare with --modes.")
    request = Request(
        config=resolved.config,
        modes=wanted,
        paths=tuple(paths),
        recursive=recursive,
        limit=limit,
        repeats=repeat,
        judging=judging.Judging(
            references, file_column, tuple(text_column or ()), tuple(label or ()), lexicon, bertscore, seed
        ),
        output=output,
        overwrite=overwrite,
        json=json,
        html=html,
        captions=captions,
        reads=(references, lexicon, *given.reads(resolved)),
    )
    code = Comparing(request, quiet=quiet, debug=debug).run()
    if code:
        raise typer.Exit(code)
