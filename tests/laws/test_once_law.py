"""Once law: the audio is encoded once per model per clip, and the cloud's not at all if nothing escalates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from specdec_cli.models.audio_lm import AudioLM
from tests.laws.cases import make_case


@contextmanager
def counted(model: AudioLM) -> Iterator[list[int]]:
    """Appends to the list at every run of the model's audio tower."""
    runs: list[int] = []

    def hook(_module: torch.nn.Module, _inputs: object, _output: object) -> None:
        runs.append(1)

    handle = model.module.model.audio_tower.register_forward_hook(hook)
    try:
        yield runs
    finally:
        handle.remove()


@pytest.mark.parametrize(
    ("mode", "gate", "prefill", "passes"),
    [
        ("hybrid", "always", "lazy", (1, 1)),
        ("hybrid", "never", "lazy", (1, 0)),
        ("hybrid", "never", "early", (1, 1)),
        ("hybrid", "always", "early", (1, 1)),
        ("hybrid", "always", "overlap", (1, 1)),
        ("lossless", "entropy", "overlap", (1, 1)),
        ("lossless", "entropy", "early", (1, 1)),
        ("lossless", "entropy", "lazy", (1, 1)),
        ("edge", "entropy", "lazy", (1, None)),
        ("cloud", "entropy", "lazy", (None, 1)),
    ],
)
@pytest.mark.parametrize("ahead", ["off", "on"])
def test_audio_towers_run_once(
    mode: str, gate: str, prefill: str, passes: tuple[int | None, int | None], ahead: str
) -> None:
    for number in range(80_000, 80_010):
        case = make_case(number, mode=mode, gate=gate, cloud_prefill=prefill, loop_period=0, draft_ahead=ahead)
        with counted(case.edge) as edge_runs, counted(case.cloud) as cloud_runs:
            _, finished = case.run()
        assert tuple(work.encoder_passes if work else None for work in (finished.edge, finished.cloud)) == passes
        assert (len(edge_runs), len(cloud_runs)) == tuple(n or 0 for n in passes)
