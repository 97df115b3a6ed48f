"""How messages name values, and several problems in one error."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from specdec_cli.errors import ConfigError

Word = TypeVar("Word", bound=str)

_LISTED: Final = 8
_LONGEST: Final = 60


def raise_if_any(problems: Iterable[ConfigError]) -> None:
    """Raise the first of `problems`, with the messages of the others in its hint."""
    found = list({problem.message: problem for problem in problems}.values())
    if found[1:]:
        others = "\n".join(f"- {other.message}" for other in found[1 : _LISTED + 1])
        more = f"{found[0].message} ({len(found) - 1} more)"
        raise ConfigError(more, hint=f"{found[0].hint or ''}\nAlso:\n{others}".strip()) from found[0]
    if found:
        raise found[0]


def chosen(text: str, known: Sequence[Word], option: str, noun: str) -> list[Word]:
    """The words of a list with commas, each once, in the order of `known`; ConfigError if one is unknown."""
    names = {word.strip().lower() for word in text.split(",") if word.strip()}
    unknown = sorted(names.difference(known))
    if unknown or not names:
        what = f"there is no {noun} {unknown[0]!r}" if unknown else f"no {noun} is named"
        raise ConfigError(f"{option}: {what}.", hint=f"{noun.split()[0].capitalize()}s: {', '.join(known)}.")
    return [word for word in known if word in names]


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """The valid name that `name` is most likely a slip of, or None; case and hyphens count for nothing."""
    known = {word.casefold().replace("-", "_"): word for word in valid}
    close = difflib.get_close_matches(name[:_LONGEST].casefold().replace("-", "_"), known, n=1, cutoff=0.6)
    return known[close[0]] if close else None


def show_name(name: str) -> str:
    """A name as it is if it is an ordinary word, else quoted."""
    return name if name.isprintable() and name and " " not in name and len(name) <= _LONGEST else show(name)


def show(value: object) -> str:
    """`value` on one line, cut to a readable length."""
    value = list(value) if isinstance(value, tuple) else value  # as YAML has it
    text = json.dumps(value) if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
