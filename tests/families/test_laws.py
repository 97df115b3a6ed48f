"""The edge and the cloud law for every family, over many pairs, clips and settings.

For each family and mode 13 cases of 200, and 100 of 1,540.
"""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch
from transformers import DynamicCache

from specdec_cli.models.audio_lm import AudioLM
from tests.families.checkpoints import KINDS
from tests.families.equality import Tally, assert_law, cache_free_logits
from tests.families.running import Case, assert_recorded, drawn_case, recording
from tests.laws.tolerance import numbers


@pytest.mark.parametrize("mode", ["edge", "lossless"])
@pytest.mark.parametrize("family", KINDS)  # one after the other: both laws use the same checkpoints
def test_the_text_is_that_of_generate(family: str, mode: Literal["edge", "lossless"]) -> None:
    """Without escalations that of the edge, with every block verified that of the cloud."""
    _check(family, mode, numbers(share=0.065))


def test_an_error_in_the_scores_breaks_both_laws(monkeypatch: pytest.MonkeyPatch) -> None:
    original = AudioLM.forward

    def forward(self: AudioLM, *args: Any, **kwargs: Any) -> Any:
        logits, *rest = original(self, *args, **kwargs)
        error = torch.zeros_like(logits)
        error[:, ::2] = 1e-3 * logits.std(-1, keepdim=True).clamp(min=1.0)
        return logits + error, *rest

    drawn_case("qwen2-audio", 0, "lossless")  # loaded and tested without the error
    monkeypatch.setattr(AudioLM, "forward", forward)
    for mode in ("edge", "lossless"):
        with pytest.raises(AssertionError, match="scores differ"):
            _check("qwen2-audio", mode, range(1))


def test_a_rollback_that_is_off_by_one_breaks_the_cloud_law(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        drawn_case("voxtral", number, "lossless")
    original = DynamicCache.crop
    monkeypatch.setattr(DynamicCache, "crop", lambda cache, count: original(cache, count + 1) if count < -1 else None)
    with pytest.raises((AssertionError, RuntimeError)):
        _check("voxtral", "lossless", range(3))


def _check(family: str, mode: Literal["edge", "lossless"], cases: range) -> None:
    tally = Tally(f"{family}, {mode}")
    for number in cases:
        case = drawn_case(family, number, mode)
        tally.add(case.name, _checked(case), case.generated())
    tally.close()


def _checked(case: Case) -> tuple[int, ...]:
    """The text of a run that obeys the law."""
    with recording() as calls:
        finished = case.run()
    text = finished.token_ids
    whole = cache_free_logits(case.judge.module, case.prompt, [*text, 0])
    assert_recorded(calls, case.judge, whole, text)
    score = case.settings().score(case.judge.module, case.prompt, whole)
    assert_law(text, score, stop_ids=case.stop_ids, max_new_tokens=case.config.decoding.max_new_tokens)
    for work in (finished.edge, finished.cloud):
        assert work is None or work.encoder_passes == 1
    assert torch.is_inference_mode_enabled() is False
    return text
