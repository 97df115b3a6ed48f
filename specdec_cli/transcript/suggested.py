"""What checkpoints suggest for settings that were left open, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def suggestions_in_words(found: object) -> Iterator[tuple[str, str]]:
    """Name and value of each: `repetition_penalty`, `1.1 (suggested by the edge's checkpoint)`.

    Args:
        found: the setting `suggested` of a transcript: role -> name -> value; anything else yields nothing.
    """
    given = found.items() if isinstance(found, Mapping) else ()
    by_role = {role: values for role, values in given if isinstance(values, Mapping)}
    alike = len(by_role) == 2 and by_role.get("edge") == by_role.get("cloud")
    for role, values in list(by_role.items())[: 1 if alike else None]:
        whose = "both checkpoints" if alike else f"the {role}'s checkpoint"
        for name, value in values.items():
            written = f"{value:g}" if isinstance(value, int | float) else str(value)
            unit = " tokens" if name == "suppressed" else ""
            yield str(name), f"{written}{unit} (suggested by {whose})"
