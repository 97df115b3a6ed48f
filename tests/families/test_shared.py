"""Several clips together, for every family: each gets its own text."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from specdec_cli.config import ModelConfig
from specdec_cli.models.loading import load_model
from specdec_cli.models.session import Session
from specdec_cli.models.shared import Shared, forward_together
from specdec_cli.types import Finished
from tests.families.checkpoints import KINDS, write
from tests.families.equality import Tally, assert_agree, assert_law
from tests.families.running import Case, config, drawn_case, model, prompt
from tests.families.test_session import TEXT, expected, failing_layer

families = pytest.mark.parametrize("family", KINDS)
CLIPS = 8
JOINING = {*KINDS} - {"gemma4", "gemma4-unified"}


@families
def test_eight_clips_together_get_their_own_texts(family: str) -> None:
    edge, cloud = model(family, 0, "near"), model(family, 0)
    cases = []
    for clip in range(CLIPS):
        base = drawn_case(family, 0, "lossless")
        prompts = (prompt(edge, clip), prompt(cloud, clip))
        settings = config(mode="lossless", k=1 + clip % 5, max_new_tokens=12)
        cases.append(Case(f"clip {clip}", type(base.pair).of(edge, cloud), settings, cloud, prompts))
    forwards: list[int] = []
    tally = Tally(f"{family}, {CLIPS} clips together")
    for case, finished in zip(cases, together(cases, forwards), strict=True):
        text = finished.token_ids
        score = case.settings().score(case.judge.module, case.prompt)
        assert_law(text, score, stop_ids=case.stop_ids, max_new_tokens=12)
        assert finished.edge is not None
        assert finished.cloud is not None
        assert finished.edge.encoder_passes == finished.cloud.encoder_passes == 1
        tally.add(case.name, text, case.generated())
    tally.close()
    assert cloud.joins == (family in JOINING)
    assert max(forwards) <= (CLIPS if cloud.joins else 1)  # how many meet depends on how long their encoders take


def test_under_eager_attention_clips_step_alone(tmp_path: Path) -> None:
    folder = write(tmp_path / "model", KINDS["qwen2-audio"], 0)
    of = load_model(ModelConfig(model=str(folder), device="cpu", attention="eager"), offline=True)
    assert not of.joins
    assert of.self_test == "passed; clips of a batch step one by one"
    case = drawn_case("qwen2-audio", 0, "edge")
    settings = config(mode="edge", k=4, max_new_tokens=10)
    cases = [
        Case(f"{clip}", type(case.pair).of(of, None), settings, of, (prompt(of, clip), prompt(of, clip)))
        for clip in range(4)
    ]
    forwards: list[int] = []
    for case, finished in zip(cases, together(cases, forwards), strict=True):
        score = case.settings().score(of.module, case.prompt)
        assert_law(finished.token_ids, score, stop_ids=case.stop_ids, max_new_tokens=10)
    assert set(forwards) == {1}


@pytest.mark.parametrize("family", sorted(JOINING))
def test_a_joint_forward_that_fails_half_way_leaves_every_session_right(family: str) -> None:
    of = model(family, 0)
    with Shared() as shared:
        sessions = [Session(of, prompt(of, clip), 20, through=shared.logits) for clip in range(3)]
        for session in sessions:
            session.prefill()
        wanted = [(session, TEXT, 4) for session in sessions]
        with failing_layer(of), pytest.raises(RuntimeError, match="half-way"):
            forward_together(wanted)
        for clip, scores in enumerate(forward_together(wanted)):
            assert isinstance(scores, torch.Tensor)
            assert_agree(scores, expected(of, clip, 4))
        assert [session.work.encoder_passes for session in sessions] == [1, 1, 1]


def together(cases: Sequence[Case], forwards: list[int]) -> list[Finished]:
    """Runs cases at once, one thread each; `forwards` gets the number of clips of every forward."""
    start = threading.Barrier(len(cases))

    def run(case: Case, shared: Shared) -> Any:
        with shared.clip():
            start.wait(60)
            return case.run(shared)

    watch = lambda clips, _seconds: forwards.append(clips)  # noqa: E731
    with Shared(watch=watch) as shared, ThreadPoolExecutor(len(cases)) as pool:
        return list(pool.map(run, cases, [shared] * len(cases), timeout=300))
