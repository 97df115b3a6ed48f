"""Signs and styles of the display: every distinction is made by a sign first and by colour second.

The styles use the terminal's own sixteen colours, so they follow its light or dark theme.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rich.console import Console

from specdec_cli.transcript.token_fates import Fate

_FATES: Final[dict[Fate, tuple[str, str, str]]] = {
    "edge": ("", "", ""),
    "accepted": ("✓", "=", "green"),
    "rejected": ("✗", "~", "dim red strike"),
    "cut": ("-", "-", "dim strike"),
    "corrected": ("→", ">", "bold magenta"),
    "bonus": ("+", "+", "bold cyan"),
    "cloud": ("", "", "cyan"),
    "run_on": ("»", ">>", "cyan"),
}
"""Of each fate of a token: its sign, the same in ASCII, and its style."""
STYLES: Final = {fate: style for fate, (_, _, style) in _FATES.items()}

DIM: Final = "dim"
STRONG: Final = "bold"
ASKED: Final = "yellow"
BELOW: Final = "cyan"
ABOVE: Final = "bold yellow underline"
GOOD: Final = "green"
BAD: Final = "bold red"


@dataclass(frozen=True, slots=True)
class Signs:
    """The characters of the display: in Unicode where nothing else is given."""

    roles: dict[Fate, str]  # the sign before a run of tokens; an empty one for tokens that nobody judged
    bars: str = "▁▂▃▄▅▆▇█"  # the upper four levels are those at which the gate escalates
    eos: str = "∎"  # in place of the token that ends a text
    newline: str = "⏎"  # in place of a token that is nothing but that
    space: str = "␣"  # alike
    partial: str = "·"  # in place of bytes that are not yet a character
    joint: str = "|"  # between two tokens that no space separates
    ok: str = "✓"
    warn: str = "!"
    fail: str = "✗"
    dot: str = "·"  # between two facts in one line
    ellipsis: str = "…"
    rule: str = "─"
    spinner: str = "dots"  # in rich's list


UNICODE: Final = Signs({fate: sign for fate, (sign, _, _) in _FATES.items()})
ASCII: Final = Signs(
    roles={fate: sign for fate, (_, sign, _) in _FATES.items()},
    bars=".:-=+*#@",
    eos="<end>",
    newline="\\n",
    space="_",
    partial="?",
    ok="ok",
    fail="x",
    dot="-",
    ellipsis="...",
    rule="-",
    spinner="line",
)
_ASCII_FIGURES: Final = str.maketrans("—×–", "-x-")


def signs_for(console: Console) -> Signs:
    """The signs that `console` can write: Unicode under UTF-8, ASCII under any other encoding."""
    return UNICODE if console.encoding.lower().replace("-", "").startswith("utf") else ASCII


def written(text: str, signs: Signs) -> str:
    """`text` with the signs of figures in ASCII where `signs` are."""
    return text if signs is UNICODE else text.translate(_ASCII_FIGURES)
