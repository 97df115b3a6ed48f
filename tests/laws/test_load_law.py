"""Load law: how fast or slow the models are changes no text and no round, in any mode."""

import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from specdec_cli.decoding.block import Block
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.types import Finished
from tests.laws.cases import Case, make_case
from tests.laws.tolerance import numbers

MODES = ("hybrid", "lossless", "edge", "cloud")


def load_case(number: int) -> Case:
    """A case with everything that is there for speed."""
    rng = random.Random(f"load {number}")
    given = {"k": rng.choice(("auto", "auto", 3)), "defer": rng.random() < 0.2, "temperature": rng.choice((0.0, 0.8))}
    given |= {"cloud_prefill": rng.choice(("lazy", "early", "overlap")), "guess_tokens": rng.choice((0, 8))}
    return make_case(number, mode=MODES[number % len(MODES)], acceptance=None, max_new_tokens=14, **given)


def decided(rounds: list[Block], finished: Finished) -> tuple[Any, ...]:
    """Everything of a run but its times and forwards."""
    each = [(r.draft_ids, r.reason, r.accepted, r.committed_ids, r.source) for r in rounds]
    return finished.token_ids, finished.finish_reason, each


def slowed(forward: Callable[..., Any], late: AudioLM) -> Callable[..., Any]:
    """A forward that takes one model four milliseconds more."""

    def slowly(model: AudioLM, *args: Any, **given: Any) -> Any:
        time.sleep(0.004 if model is late else 0.0)
        return forward(model, *args, **given)

    return slowly


@pytest.mark.parametrize("slow", ["edge", "cloud"])
def test_a_slow_model_changes_no_round(slow, monkeypatch):
    forward = AudioLM.forward
    for number in numbers(160_000, 0.2):
        case = load_case(number)
        before = [decided(*case.run()) for _ in range(2)]

        with monkeypatch.context() as patch:
            patch.setattr(AudioLM, "forward", slowed(forward, getattr(case, slow)))
            assert [decided(*case.run()) for _ in range(2)] == before, number
