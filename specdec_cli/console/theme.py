"""Styles and signs of the display: every distinction is made by a sign first and by colour second.

The styles use the terminal's own sixteen colours, so they follow its light or dark theme.
"""

from __future__ import annotations

from typing import Final

from specdec_cli.transcript.token_fates import Fate

STYLES: Final[dict[Fate, str]] = {
    "edge": "",
    "accepted": "green",
    "rejected": "dim red strike",
    "cut": "dim strike",
    "corrected": "bold magenta",
    "bonus": "bold cyan",
    "cloud": "cyan",
}
"""Fate of a token -> its style; the signs are in `SIGNS`."""

DIM: Final = "dim"
STRONG: Final = "bold"
NOTICE: Final = "yellow"
BELOW: Final = "cyan"
ABOVE: Final = "bold yellow underline"
GOOD: Final = "green"
BAD: Final = "bold red"

OK, WARN, FAIL = "✓", "!", "✗"
DOT = " · "
"""Between two facts in one line."""
JOINT = "|"
"""Between two tokens that no space separates."""
EOS, NEWLINE, SPACE, PARTIAL = "∎", "⏎", "␣", "·"
"""In place of a token that ends a text, or is nothing but white space, and of bytes that are not yet a character."""
RULE = "─"
