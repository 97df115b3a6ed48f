"""`specdec unpack`: writes the recordings of a data set as files, and a table of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from specdec_cli.cli import options
from specdec_cli.cli.command_run import display
from specdec_cli.cli.ending import interruptible
from specdec_cli.errors import ConfigError
from specdec_cli.format import count
from specdec_cli.inputs.text_files import MOST_BYTES
from specdec_cli.unpack.data_set import DataSet
from specdec_cli.unpack.folder import TABLE, Unpacking

_DATA_SET: Final = "Parquet, Arrow or tar file, or a folder of them; a split behind a colon, as in emotions:train."
_OUTPUT: Final = "Folder for the recordings and their table; it will be created."
_COLUMN: Final = "Column that holds the recordings, where several do: audio=near."


@options.taking(options.DisplayOptions)
def unpack(
    context: typer.Context,
    data_set: Annotated[str, typer.Argument(help=_DATA_SET, metavar="DATASET[:SPLIT]")],
    output: Annotated[Path, options.out(metavar="FOLDER", help=_OUTPUT)],
    column: Annotated[str | None, options.of_input("--column", metavar="audio=COLUMN", help=_COLUMN)] = None,
    limit: options.Limit = None,
) -> int:
    """Write the recordings of a data set as files, with one table for --manifest and --references.

    Reads Parquet and Arrow files of Hugging Face and tars of WebDataset, or a folder of them. All other columns are
    kept. Run the same command again to go on where it was interrupted.
    """
    found, table = DataSet.find(data_set), output / TABLE
    work = Unpacking(found, output, None if column is None else _of_audio(column))
    with display(context) as view:
        view.skips.append(work.skips)
        with interruptible(lambda: view.stopping("finishing the recording"), polled=True) as ending:
            work.run(view, limit=limit, stopped=ending.check)
        if not (work.count or work.before or work.failed):
            work.skips.require_some(0, f"{data_set} has no rows.", "Name another split or file.")
        earlier = f" ({work.before:,} done before)" if work.before else ""
        view.conclude(f"{count(work.count + work.before, 'recording')}{earlier} in {output}, listed in {table}")
        if ending.asked:
            view.hint("Run the same command again to go on.")
            return 130
        if table.is_file() and table.stat().st_size > MOST_BYTES:
            raise ConfigError(
                f"{table} has more than {MOST_BYTES >> 20} MiB, which no command reads.",
                hint="Unpack one split at a time, or a part of it with --limit, each into a folder of its own.",
            )
        view.hint(f"Caption them: specdec batch --manifest {table} -o captions.jsonl")
    return 1 if work.failed else 0


def _of_audio(given: str) -> str:
    """The column in `audio=COLUMN`; ConfigError if it is not of that form."""
    what, _, column = given.partition("=")
    if what != "audio" or not column:
        raise ConfigError(
            f"--column {given!r} is not of the form audio=COLUMN.", hint="For example: --column audio=near"
        )
    return column
