"""Sessions of every family: one encoder pass a clip, no scores that nobody wants, and a right state after an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from specdec_cli.config import ModelConfig
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.kernels import has_int8
from specdec_cli.models.loading import load_model
from specdec_cli.models.session import Session
from tests.families.checkpoints import KINDS, write
from tests.families.equality import assert_agree, cache_free_logits
from tests.families.running import model, prompt

families = pytest.mark.parametrize("family", KINDS)
TEXT = (65, 66, 200, 67, 68, 201)


def expected(of: AudioLM, clip: int, positions: int) -> torch.Tensor:
    """Cache-free logits of what follows the last prefixes of `TEXT`."""
    return cache_free_logits(of.module, prompt(of, clip), [*TEXT, 0])[-positions:, : of.processor.vocab_size]


@families
def test_a_verification_after_an_early_prefill_runs_the_encoder_once(family: str) -> None:
    of = model(family, 0)
    session = Session(of, prompt(of, 1), 20)
    session.prefill()
    assert_agree(session.logits(TEXT, len(TEXT) + 1), expected(of, 1, len(TEXT) + 1))
    assert_agree(session.logits(TEXT[:2], 3), expected(of, 1, 7)[:3])
    assert session.work.encoder_passes == 1
    assert session.work.forwards <= 3


@families
def test_a_cache_can_be_cropped_behind_an_earlier_crop(family: str) -> None:
    of = model(family, 0)
    session = Session(of, prompt(of, 1), 20)
    for text in (TEXT, (*TEXT[:5], 70), (*TEXT[:1], 71)):
        wanted = cache_free_logits(of.module, prompt(of, 1), [*text, 0])[-2:, : of.processor.vocab_size]
        assert_agree(session.logits(text, 2), wanted)
    assert session.work.forwards == 3


@families
def test_the_output_layer_computes_wanted_rows_only(family: str) -> None:
    of = model(family, 0)
    with output_rows(of) as rows:
        session = Session(of, prompt(of, 1), 20)
        session.prefill()
        session.logits(TEXT[:3])
        session.logits(TEXT, 4)
    assert rows == [1, 1, 4]
    with output_rows(of) as rows:
        Session(of, prompt(of, 1), 20).logits(TEXT, 5)
    assert rows == [5]


@families
def test_a_forward_that_fails_half_way_leaves_the_session_right(family: str) -> None:
    of = model(family, 0)
    session = Session(of, prompt(of, 1), 20)
    for text, positions in (((), 1), (TEXT[:3], 2), (TEXT, 4)):
        with failing_layer(of), pytest.raises(RuntimeError, match="half-way"):
            session.logits(text, positions)
        scores = session.logits(text, positions)
    assert_agree(scores, expected(of, 1, 4))


@families
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_the_attention_that_is_asked_for_is_that_of_the_decoder(tmp_path: Path, family: str, attention: str) -> None:
    folder = write(tmp_path / "model", KINDS[family], 0)
    of = load_model(ModelConfig(model=str(folder), device="cpu", attention=attention), offline=True, tested=False)
    assert of.module.get_decoder().config._attn_implementation == attention
    assert of.joins == (attention == "sdpa" and not family.startswith("gemma4"))
    session = Session(of, prompt(of, 1), 20)
    assert_agree(session.logits(TEXT, 3), expected(of, 1, 3))


@contextmanager
def output_rows(of: AudioLM) -> Iterator[list[int]]:
    """Rows that enter the output layer, per forward; their strides are as if the other rows had never been."""
    rows: list[int] = []

    def enter(_module: object, inputs: tuple[torch.Tensor, ...]) -> None:
        assert inputs[0].stride() == torch.empty(inputs[0].shape).stride()
        rows.append(inputs[0].shape[-2])

    hook = of.module.get_output_embeddings().register_forward_pre_hook(enter)
    yield rows
    hook.remove()


@contextmanager
def failing_layer(of: AudioLM) -> Iterator[None]:
    """The last decoder layer raises, when all others have extended the cache."""

    def fail(*_: Any) -> None:
        raise RuntimeError("half-way")

    hook = of.module.get_decoder().layers[-1].register_forward_pre_hook(fail)
    yield
    hook.remove()


@pytest.mark.skipif(not has_int8(), reason="this CPU has no VNNI")
@families
def test_an_encoder_in_int8_changes_scores_a_little(family: str, request: pytest.FixtureRequest) -> None:
    of = model(family, 0)
    whole = Session(of, prompt(of, 1), 20).logits(TEXT, 3)
    request.addfinalizer(lambda: of.kernels.choose(None))
    of.kernels.choose("int8")
    rounded = Session(of, prompt(of, 1), 20).logits(TEXT, 3)
    with of.kernels.as_published():
        published = Session(of, prompt(of, 1), 20).logits(TEXT, 3)
    assert of.describe()["dtype"] == "float32 (encoder int8)"
    torch.testing.assert_close(published, whole, atol=1e-4, rtol=1e-4)
    assert not torch.equal(rounded, whole)
    assert (rounded - whole)[whole.isfinite()].abs().max() < 0.5 * whole[whole.isfinite()].std()
