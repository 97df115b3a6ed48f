"""Steps of training, whose state on disk a kill at any moment leaves either old or new."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import torch
from rich.progress import track
from torch import nn

from training.recipes import Recipe

SAVE_EVERY: Final = 50
"""Steps."""


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


def take_steps(
    recipe: Recipe,
    steps: int,
    parameters: Mapping[str, nn.Parameter],
    groups: Sequence[dict[str, Any]],
    losses: Callable[[int], Iterator[dict[str, torch.Tensor]]],
    path: Path,
    report: Callable[[int, dict[str, float]], None],
    after: Callable[[], None] = lambda: None,
) -> None:
    """Train `parameters` in place, ending with averaged values. Goes on from what `path` has of the same recipe.

    Args:
        recipe: its seed decides what a step draws.
        steps: of the whole training.
        parameters: by name.
        groups: those of them that learn, with their rates, as an optimiser takes them.
        losses: takes the first step (from 0) and gives the losses of each; `loss` is what is minimised.
        path: of the state.
        report: takes the number of a step (from 1) and its losses.
        after: called after the parameters have moved.
    """
    optimiser = torch.optim.AdamW(groups, betas=(0.9, 0.98), weight_decay=recipe.weight_decay, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _warm_cosine(step, recipe.warm_up, steps))
    average = {name: value.detach().clone() for name, value in parameters.items()}
    first = 0
    if (state := load_state(path)) is not None and state["recipe"] == asdict(recipe):
        _copy(state["values"], parameters)
        optimiser.load_state_dict(state["optimiser"])
        schedule.load_state_dict(state["schedule"])
        average = state["average"]
        first = int(state["step"])
    losses_of = losses(first)
    for step in track(range(first, steps), path.stem):
        with torch.random.fork_rng():
            torch.manual_seed(recipe.seed * 1_000_003 + step)
            found = next(losses_of)
            torch.autograd.backward(found["loss"])
        nn.utils.clip_grad_norm_(list(parameters.values()), 1.0)
        optimiser.step()
        after()
        schedule.step()
        optimiser.zero_grad(set_to_none=True)
        weight = 1.0 - min(recipe.average, (1 + step) / (10 + step))  # early averages are not the initial values
        torch._foreach_lerp_([average[name] for name in parameters], [v.detach() for v in parameters.values()], weight)
        report(step + 1, {name: float(loss.detach()) for name, loss in found.items()})
        if (step + 1) % SAVE_EVERY == 0 or step + 1 == steps:
            state = {"step": step + 1, "recipe": asdict(recipe), "average": average}
            state |= {"values": {name: value.detach() for name, value in parameters.items()}}
            state |= {"optimiser": optimiser.state_dict(), "schedule": schedule.state_dict()}
            save_state(path, state)
    _copy(average, parameters)


@torch.no_grad()
def _copy(values: Mapping[str, torch.Tensor], parameters: Mapping[str, nn.Parameter]) -> None:
    for name, value in parameters.items():
        value.copy_(values[name])


def _warm_cosine(step: int, warm_up: int, steps: int) -> float:
    """Linear warm-up, then a cosine down to 0.02 at `steps`."""
    if step < warm_up:
        return (step + 1) / warm_up
    progress = min(1.0, (step - warm_up) / max(1, steps - warm_up))
    return 0.02 + 0.98 * 0.5 * (1.0 + math.cos(math.pi * progress))
