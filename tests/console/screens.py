"""Consoles that keep what is printed on them."""

import io
import re
from typing import Any

from rich.console import Console

from specdec_cli.console.view import Form, View
from tests.console.script import Clip

COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-7]|4[0-7]|9[0-7])(?:;\d+)*m")
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Screen(Console):
    """A console of a given size whose output can be read back."""

    def __init__(
        self, width: int, height: int = 24, *, terminal: bool = False, encoding: str = "utf-8", no_color: bool = False
    ) -> None:
        self.bytes = io.BytesIO()
        file = io.TextIOWrapper(self.bytes, encoding=encoding, errors="replace", write_through=True)
        super().__init__(
            file=file, width=width, height=height, force_terminal=terminal,
            color_system="standard" if terminal else None, no_color=no_color, legacy_windows=False, markup=False,
            emoji=False, highlight=False, _environ={},
        )  # fmt: skip

    @property
    def output(self) -> str:
        return self.bytes.getvalue().decode("utf-8", "replace")

    @property
    def lines(self) -> list[str]:
        return [line.split("\r")[-1] for line in ESCAPE.sub("", self.output).split("\n")]


def play(view: View, clip: Clip, steps: int | None = None) -> None:
    """Play a clip, or the first so many steps of it, on a view."""
    for update in clip.updates[:steps]:
        view.show(update)


def viewed(width: int, form: Form, **options: Any) -> tuple[Screen, View]:
    """A screen, on which a terminal shows what is live, and a view of that form on it."""
    screen = Screen(width, terminal=form == "live")
    return screen, View(screen, form, **options)
