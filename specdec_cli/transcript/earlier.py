"""What earlier lines of schema 1 hold and later ones do not: it is read and dropped."""

from __future__ import annotations

from typing import Any, Final

_OF_ROUNDS: Final = frozenset({"hidden_ms", "stood"})
_REASONS: Final = ("learned", "sound")
"""Reasons why the cloud got a block."""
_OF_TOTALS: Final = frozenset({"run_on", "hidden_ms", "thrown_away"})
_OF_SETTINGS: Final = frozenset(
    {
        *("draft_ahead", "gate_weights", "wake_weights", "grounded", "arbitrates"),
        *("edge_failed", "degrade", "rank", "prob"),
    }
)
"""Settings that changed no caption, that belonged to the gate `learned` and to what `sound` replaces, that say what
became of a clip where a model failed, and the numbers that `acceptance` holds now."""
_AT_VALUE: Final = {"run_on": 0, "loop_repeats": 3, "loop_top_k": 10}
"""Settings that are constants now -> the value."""


def round_fields(values: Any) -> Any:
    """The fields of a round."""
    values = _without(values, _OF_ROUNDS)
    return {**values, "reason": None} if isinstance(values, dict) and values.get("reason") in _REASONS else values


def totals_fields(values: Any) -> Any:
    """The fields of a line's totals."""
    return _without(values, _OF_TOTALS)


def settings_of(values: dict[str, Any]) -> dict[str, Any]:
    """The settings of a line; one that is at the value that always holds now says nothing."""
    left_out = {*_OF_SETTINGS, "defer", *(name for name, value in _AT_VALUE.items() if values.get(name) == value)}
    if (rule := values.get("acceptance")) in ("rank", "prob") and rule in values:
        values = values | {"acceptance": f"{rule}:{values[rule]:g}"}
    kept = {name: value for name, value in values.items() if name not in left_out}
    return kept | {"k": "whole"} if values.get("defer") else kept


def _without(values: Any, names: frozenset[str]) -> Any:
    if not isinstance(values, dict) or names.isdisjoint(values):
        return values
    return {name: value for name, value in values.items() if name not in names}
