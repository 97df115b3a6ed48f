"""Which modes are compared, with which settings each of them runs, and in which order."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, TypeVar

from specdec_cli.config import Config
from specdec_cli.errors import ConfigError
from specdec_cli.text import chosen
from specdec_cli.types import LOSSY_RULES, Mode

MODES: Final[tuple[Mode, ...]] = ("edge", "hybrid", "lossless", "cloud")
"""All modes, in the order of tables."""

R = TypeVar("R")
M = TypeVar("M")


def parse_modes(text: str) -> tuple[Mode, ...]:
    """Modes out of `edge,hybrid`, in the order of tables; ConfigError: one is unknown, or there are fewer than two."""
    modes = tuple(chosen(text, MODES, "--mode", "mode"))
    if len(modes) < 2:
        raise ConfigError(f"--mode {text!r} leaves nothing to compare.", hint="Name two modes or more: edge,hybrid")
    return modes


def richest(modes: Collection[Mode]) -> Mode:
    """The mode that uses most settings. The user's settings are checked in this one.

    Where edge-only and cloud-only alone are compared it is cloud-only, which uses neither a gate nor a rule.
    """
    return next(mode for mode in ("hybrid", "lossless", "cloud", "edge") if mode in modes)


def in_mode(config: Config, mode: Mode) -> Config:
    """`config` in a mode. In lossless mode a lossy rule gives way to the lossless rule of the temperature."""
    changed: dict[str, object] = {"mode": mode}
    if mode == "lossless" and config.decoding.rules.rule in LOSSY_RULES:
        changed["acceptance"] = None
    return config.model_copy(update={"decoding": config.decoding.model_copy(update=changed)})


def turns(recordings: Sequence[R], modes: Sequence[M], rounds: int = 1) -> Iterator[tuple[R, M]]:
    """Every recording once in all modes, then every one again for each further round.

    The modes take turns clip by clip rather than one after the whole of the other, so that a machine that grows hot or
    busy slows all of them; their order rotates, so that each comes first, second and so on equally often.
    """
    for round_ in range(rounds):
        for index, recording in enumerate(recordings):
            first = (index + round_) % len(modes)
            for mode in (*modes[first:], *modes[:first]):
                yield recording, mode
