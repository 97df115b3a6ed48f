"""Once law: the audio is encoded once per model per clip, and the cloud's not at all if nothing escalates."""

from __future__ import annotations

import pytest
import torch

from tests.laws.cases import make_case


@pytest.mark.parametrize(
    ("mode", "gate", "prefill", "passes"),
    [
        ("hybrid", "always", "lazy", (1, 1)),
        ("hybrid", "never", "lazy", (1, 0)),
        ("hybrid", "never", "early", (1, 1)),
        ("hybrid", "always", "overlap", (1, 1)),
        ("lossless", "entropy", "overlap", (1, 1)),
        ("lossless", "entropy", "lazy", (1, 1)),
        ("edge", "entropy", "lazy", (1, None)),
        ("cloud", "entropy", "lazy", (None, 1)),
    ],
)
def test_audio_towers_run_once(mode: str, gate: str, prefill: str, passes: tuple[int | None, int | None]) -> None:
    for number in range(80_000, 80_010):
        case = make_case(number, mode=mode, gate=gate, cloud_prefill=prefill, loop_period=0)
        assert case.pair.edge is not None
        assert case.pair.cloud is not None
        runs = {"edge": 0, "cloud": 0}

        def count(role: str) -> object:
            def hook(_module: torch.nn.Module, _inputs: object, _output: object) -> None:
                runs[role] += 1  # noqa: B023

            return hook

        towers = {
            "edge": case.pair.edge.module.model.audio_tower,  # type: ignore[attr-defined]
            "cloud": case.pair.cloud.module.model.audio_tower,  # type: ignore[attr-defined]
        }
        handles = [tower.register_forward_hook(count(role)) for role, tower in towers.items()]
        _, finished = case.run()
        for handle in handles:
            handle.remove()
        counted = tuple(work.encoder_passes if work else None for work in (finished.edge, finished.cloud))
        assert counted == passes
        assert (runs["edge"], runs["cloud"]) == tuple(n or 0 for n in passes)
