"""How commands over many recordings end; 0 is that all went well, 2 a wrong command line."""

from __future__ import annotations

from typing import Final

ALL_FAILED: Final = 1
SOME_FAILED: Final = 3
INTERRUPTED: Final = 130
