"""Texts from outside: made safe to show and to write, quoted in messages, and matched with known words."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from specdec_cli.errors import ConfigError

Word = TypeVar("Word", bound=str)

_LONGEST: Final = 60  # characters of a value in a message
_NO_NAME: Final = re.compile("[\0\ud800-\udc7f\udd00-\udfff]")  # what no file's name holds
_NO_TEXT: Final = re.compile("[\0-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")  # what XML cannot hold, and controls


def escape(character: str) -> str:
    """A character written out: `\\x1b`, `\\u202e`."""
    return ascii(character)[1:-1]


def plain(text: str) -> str:
    """`text` with escapes for characters that a terminal would obey or not show, such as a path in a message."""
    return "".join(each if each.isprintable() else escape(each) for each in text)


def clean(text: str) -> str:
    """`text` on one line, without characters that a terminal would obey.

    White space becomes spaces; other control, formatting (bidirectional overrides among them) and surrogate characters
    become visible escapes.
    """
    return plain("".join(" " if each.isspace() else each for each in text))


def paragraph(text: str) -> str:
    """`text` as `clean` gives it, with each run of white space as one space."""
    return " ".join(clean(text).split())


def one_line(text: str) -> str:
    """`text` on one line of a file of another tool: white space as single spaces, what XML cannot hold as escapes."""
    return _NO_TEXT.sub(lambda found: escape(found[0]), " ".join(text.split()))


def readable(text: str) -> str:
    """`text` with lone surrogates written out: U+DC80 becomes the six characters \\udc80."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def is_file_name(name: str) -> bool:
    """Whether a file can have this name."""
    return _NO_NAME.search(name) is None


def file_name(path: str) -> str:
    """A path for `Transcript.file`; characters that no file's name holds are written out."""
    return _NO_NAME.sub(lambda found: escape(found[0]), path)


def show(value: object) -> str:
    """`value` on one line as YAML writes it, cut to a readable length."""
    value = list(value) if isinstance(value, tuple) else value
    text = json.dumps(value) if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def show_name(name: str) -> str:
    """A name: as it is if it is one printable word, else quoted."""
    return name if name.isprintable() and name and " " not in name and len(name) <= _LONGEST else show(name)


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """The valid name that is most like `name`, or None; case and hyphens do not count."""
    known = {word.casefold().replace("-", "_"): word for word in valid}
    close = difflib.get_close_matches(name[:_LONGEST].casefold().replace("-", "_"), known, n=1, cutoff=0.6)
    return known[close[0]] if close else None


def chosen(text: str, known: Sequence[Word], option: str, noun: str) -> list[Word]:
    """The words of a list with commas, each once, in the order of `known`; ConfigError if one is unknown."""
    names = {word.strip().lower() for word in text.split(",") if word.strip()}
    unknown = sorted(names.difference(known))
    if unknown or not names:
        what = f"there is no {noun} {unknown[0]!r}" if unknown else f"no {noun} is named"
        raise ConfigError(f"{option}: {what}.", hint=f"{noun.split()[0].capitalize()}s: {', '.join(known)}.")
    return [word for word in known if word in names]
