"""What is suggested: only what was measured to be faster, and nothing is left changed by measuring."""

from __future__ import annotations

import pytest
import torch

from specdec_cli.bench.advice import suggestions, try_dtypes, try_encoders, try_threads
from specdec_cli.bench.clips import Models
from specdec_cli.bench.formulas import expected_speedup
from specdec_cli.bench.result import Expected, Trial
from specdec_cli.metrics.bootstrap import Interval
from specdec_cli.models.kernels import encoder_dtypes
from tests.bench.clip import clip_of
from tests.mini_pair import captioner

K = 2


def trials(setting: str, times: dict[int | str, float]) -> list[Trial]:
    return [Trial(setting=setting, value=value, ms=Interval(ms, None, None)) for value, ms in times.items()]


def expected(acceptance: float, k: int, cost: float, verification: float) -> Expected:
    return Expected(
        k=k,
        acceptance=acceptance,
        cost_ratio=cost,
        verification_ratio=verification,
        tokens_per_round=1.0,
        speedup=expected_speedup(acceptance, k, cost, verification),
        measured=1.0,
        of_a_clip=1.0,
    )


def test_the_fastest_value_of_a_setting_is_suggested() -> None:
    tried = [
        *trials("runtime.threads", {4: 30.0, 1: 20.0, 2: 15.0}),
        *trials("cloud.dtype", {"float32": 2.0, "a": 9.0}),
    ]
    (found,) = suggestions(None, tried, 5)
    assert (found.option, found.speedup) == ("--set runtime.threads=2", pytest.approx(2.0))


def test_what_is_hardly_faster_is_not_suggested() -> None:
    assert list(suggestions(None, trials("runtime.threads", {4: 10.5, 2: 10.0}), 5)) == []


def test_a_longer_block_is_suggested_where_more_drafts_would_be_accepted() -> None:
    (found,) = suggestions(expected(0.98, 1, 0.05, 1.02), [], 1)
    assert found.option.startswith("-k ")
    assert int(found.option.split()[1]) > 5
    assert found.speedup > 1.5
    assert list(suggestions(expected(0.98, 1, 0.05, 1.02), [], "auto")) == []


def test_drafts_that_only_cost_are_named() -> None:
    (found,) = suggestions(expected(0.1, 5, 0.5, 2.0), [], 5)
    assert found.option == "--mode cloud"
    assert found.speedup > 2


def test_trials_begin_with_the_present_value_and_change_nothing() -> None:
    lossless = captioner(decoding__mode="lossless", decoding__k=K)
    models, before = Models.of(lossless.pair), torch.get_num_threads()
    threads = list(try_threads(models, clip_of(lossless), tuple(range(20, 30)), K))
    assert threads[0].value == before == torch.get_num_threads()
    assert {trial.value for trial in threads} >= {1, before}
    dtypes = list(try_dtypes(models, K))
    assert [(trial.setting, trial.value) for trial in dtypes] == [
        (f"{role}.dtype", dtype) for role in ("edge", "cloud") for dtype in ("float32", "bfloat16", "float16")
    ]
    clip = clip_of(lossless)
    encoders = list(try_encoders({"edge": (models.edge, clip.edge), "cloud": (models.cloud, clip.cloud)}))
    assert [(trial.setting, trial.value) for trial in encoders] == [
        (f"{role}.encoder_dtype", dtype) for role in ("edge", "cloud") for dtype in ("null", *encoder_dtypes())
    ]
    assert {model.kernels.encoder_dtype for model in (models.edge, models.cloud)} == {None}
    assert all(trial.ms.value > 0 for trial in dtypes + threads + encoders)
