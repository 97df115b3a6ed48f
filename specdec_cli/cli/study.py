"""What `compare`, `tune` and `review` share: recordings with their hashes, references, and results that they print."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pydantic import BaseModel

from specdec_cli.cli.options import ReferenceOptions
from specdec_cli.config import Config
from specdec_cli.console.plain import write_line
from specdec_cli.console.tables import print_page
from specdec_cli.console.view import View
from specdec_cli.errors import ConfigError
from specdec_cli.inputs.find import all_unreadable, identify
from specdec_cli.inputs.recording import InputFile
from specdec_cli.labels import Lexicon
from specdec_cli.labels.references import References


def identified(view: View, files: Sequence[str]) -> list[InputFile]:
    """The recordings with the hashes of their bytes; a copy of another one is left out with a warning."""
    recordings, copies = identify(files)
    for copy, original in copies.items():
        view.warn(f"{copy} holds the same bytes as {original} and is left out")
    return recordings


def emit(found: BaseModel, page: Callable[..., Any], *, json: bool) -> None:
    """Prints a result: one JSON object, or its page."""
    if json:
        write_line(found.model_dump_json(by_alias=True))
    else:
        print_page(partial(page, found))


def unopened(recordings: Sequence[InputFile]) -> int:
    """The exit code where none of the recordings can be opened; else 0."""
    statuses = [recording.error.status for recording in recordings if recording.error is not None]
    return max(statuses, default=0) if len(statuses) == len(recordings) else 0


def read_references(
    command: ReferenceOptions, config: Config, files: Sequence[str] = (), by: str | None = None
) -> tuple[Lexicon, References | None]:
    """The lexicon and the references by which a command judges captions.

    `by`: column by which results are given. ConfigError: a file is malformed, a column is named without a table, or the
    table has none of the `files`.
    """
    lexicon = Lexicon.read(command.lexicon)
    if command.references is None:
        if command.columns or by:
            raise ConfigError("Columns are named, but there are no references.", hint="Name the table: --references")
        return lexicon, None
    columns = [column.partition("=")[::2] for column in command.columns or ()]
    if wrong := [what for what, column in columns if what not in ("file", "text", *lexicon.attributes) or not column]:
        hint = f"Name file, text or an attribute ({', '.join(lexicon.attributes)}): --column emotion=mood"
        raise ConfigError(f"--column {wrong[0]!r} is not of the form WHAT=COLUMN.", hint=hint)
    if not files and any(what == "text" for what, _ in columns):
        hint = "Leave it out: only compare and tune compare captions with texts."
        raise ConfigError(f"--column text has no effect in specdec {command.name}.", hint=hint)
    found = References.read(
        command.references,
        file_column=next((column for what, column in columns if what == "file"), None),
        text_columns=tuple(column for what, column in columns if what == "text"),
        label_columns={what: column for what, column in columns if what in lexicon.attributes},
        lexicon=lexicon,
        strict=config.audio.strict,
        label_codes=config.judging.label_codes,
        by=by,
    )
    if refused := all_unreadable(map(InputFile, files)):
        raise next(iter(refused.values()))
    if files:
        found.require_some(files)
    return lexicon, found
