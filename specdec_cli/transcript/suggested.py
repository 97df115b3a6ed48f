"""What checkpoints suggest for settings that were left open, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def suggestions_in_words(found: object) -> Iterator[tuple[str, str]]:
    """Name and value of each: `repetition_penalty`, `1.1 (suggested by the edge's checkpoint)`.

    Args:
        found: the setting `suggested` of a transcript: role -> name -> value; anything else yields nothing.
    """
    by_role = dict(found) if isinstance(found, Mapping) else {}
    alike = len(by_role) == 2 and by_role["edge"] == by_role["cloud"]
    for role, values in list(by_role.items())[: 1 if alike else None]:
        whose = "both checkpoints" if alike else f"the {role}'s checkpoint"
        for name, value in values.items():
            written = f"{value:g}" if isinstance(value, int | float) else str(value)
            unit = " tokens" if name == "suppressed" else ""
            yield str(name), f"{written}{unit} (suggested by {whose})"
