"""Training states on disk, written so that a kill at any moment leaves either the old or the new one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch


def save_state(path: Path, state: dict[str, Any]) -> None:
    """Write `state` to `path` atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    os.replace(partial, path)


def load_state(path: Path) -> dict[str, Any] | None:
    """The state at `path`, or None when there is none yet."""
    if not path.exists():
        return None
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return state


class Average:
    """Exponential moving average of parameters, with a warm-up so that early averages are not the initial weights."""

    def __init__(self, parameters: dict[str, torch.Tensor], decay: float) -> None:
        self.decay = decay
        self.values = {name: value.detach().clone() for name, value in parameters.items()}

    def update(self, parameters: dict[str, torch.Tensor], step: int) -> None:
        """Move towards `parameters` after optimiser step `step` (from 0)."""
        weight = 1.0 - min(self.decay, (1 + step) / (10 + step))
        current = [value.detach() for value in parameters.values()]
        torch._foreach_lerp_([self.values[name] for name in parameters], current, weight)
