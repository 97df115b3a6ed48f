"""A session scores what transformers' own forward scores, whatever was fed ahead, cropped or read in between."""

import random
from functools import cache
from typing import Any

import pytest
import torch
from transformers.masking_utils import create_causal_mask
from transformers.models.qwen2_5_omni import modeling_qwen2_5_omni

from specdec_cli.config.decoding_schema import DecodingConfig
from specdec_cli.decoding.next_scores import NextScores
from specdec_cli.errors import DecodingError
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.engine import _forward
from specdec_cli.models.processor import Prompt
from specdec_cli.models.session import Session
from tests.support.checkpoints import assert_agree, cache_free_logits
from tests.support.models import tiny_clip, tiny_model

VOCAB = 266
CAPACITY = 40
TEXT = tuple(random.Random(1).randrange(256) for _ in range(30))


@cache
def _case(seed: int) -> tuple[AudioLM, Prompt]:
    model = tiny_model(seed, layers=1 + seed % 3)
    return model, model.processor.prompt(tiny_clip(seed, 0.7), "say how")


def _session(seed: int = 0, vocab_size: int | None = None) -> Session:
    return Session(*_case(seed), CAPACITY, vocab_size)


def test_a_prompt_whose_own_scores_were_not_kept_is_read_again():
    session = _session()
    session.logits(TEXT[:3], 1)
    assert_agree(session.logits(TEXT[:2], 3), cache_free_logits(*_case(0), TEXT[:2]))
    assert session.work.encoder_passes == 2


def test_a_single_token_costs_no_mask_and_is_scored_alike(monkeypatch):
    model, prompt = _case(2)
    wanted = cache_free_logits(model, prompt, TEXT[:6])
    made: list[int] = []

    def counted(*args: Any, **kwargs: Any) -> Any:
        made.append(kwargs["inputs_embeds"].shape[1])
        return create_causal_mask(*args, **kwargs)

    monkeypatch.setattr(modeling_qwen2_5_omni, "create_causal_mask", counted)
    session = Session(model, prompt, CAPACITY)
    assert_agree(torch.cat([session.logits(TEXT[:length]) for length in range(4)]), wanted[:4])
    assert_agree(session.logits(TEXT[:6], 2), wanted[5:])
    assert made == [len(prompt.ids), 3]


@pytest.mark.parametrize("vocab_size", [None, VOCAB, 260, 258])
def test_placeholders_are_impossible_and_padding_is_cut(vocab_size):
    processor = _case(0)[0].processor
    scores = _session(0, vocab_size=vocab_size).logits(TEXT[:3], 4)
    assert scores.shape == (4, vocab_size or VOCAB)
    assert scores.dtype == torch.float32
    impossible = {id_ for id_ in processor.banned_ids if id_ < scores.shape[1]}
    assert {int(i) for i in torch.nonzero(scores[0] == -torch.inf)} == impossible
    assert {processor.token_text(id_) for id_ in processor.banned_ids} == {"<|AUDIO|>", "<|IMAGE|>", "<|VIDEO|>"}


@pytest.mark.parametrize("after", [0, 4])
def test_scores_that_are_not_finite_are_refused(after, monkeypatch):
    """NaN would choose tokens in silence. What was cached is forgotten, and a retry is right."""
    model = _case(0)[0]
    session, forward = _session(), model.forward
    scores = NextScores(session, DecodingConfig(), ())
    if after:
        scores.after(TEXT[:after])

    def overflowing(*args: Any, **kwargs: Any) -> Any:
        logits, *rest = forward(*args, **kwargs)
        return (torch.full_like(logits, torch.nan), *rest)

    monkeypatch.setattr(model, "forward", overflowing)
    scores.after(TEXT[:6], 2)
    with pytest.raises(DecodingError, match="logits of tiny-0 are not finite") as error:
        scores.row(TEXT[:6])
    assert not session.is_read
    assert "bfloat16" in str(error.value.hint)
    monkeypatch.undo()
    assert_agree(scores.after(TEXT[:6], 2), cache_free_logits(*_case(0), TEXT[:6])[-2:])


def test_a_step_that_fails_half_way_leaves_no_layer_ahead_of_others(monkeypatch):
    model, prompt = _case(2)
    session = Session(model, prompt, CAPACITY)
    session.logits(TEXT[:4])

    def full(*_: Any, **__: Any) -> Any:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(model.module.get_decoder().layers[-1], "forward", full)
    with torch.inference_mode(), pytest.raises(torch.OutOfMemoryError):
        session.step(torch.tensor(TEXT[4:5]))
    monkeypatch.undo()
    assert_agree(session.logits(TEXT[:6], 2), cache_free_logits(model, prompt, TEXT[:6])[-2:])


def test_a_prompt_that_does_not_fit_the_context_is_refused_with_both_lengths():
    model = tiny_model(3)
    model.processor.context = 60
    prompt = model.processor.prompt(tiny_clip(0), "say how")
    with pytest.raises(DecodingError, match=rf"takes 60 tokens.*{len(prompt.ids)}.*40 may follow") as error:
        Session(model, prompt, 40)
    assert error.value.hint
    Session(model, prompt, 60 - len(prompt.ids))


def test_hidden_states_that_are_not_finite_reach_no_other_clip():
    """Clips lie end to end in one attention, where a masked key still counts: 0 times NaN is NaN."""
    model, prompt = _case(2)
    lone, other, spoiled = (Session(model, prompt, CAPACITY) for _ in range(3))
    for session in (lone, other, spoiled):
        session.logits(TEXT[:4])
    wanted = lone.logits(TEXT[:6], 2)
    bad = next(id_ for id_ in range(256) if id_ not in TEXT)

    def overflow(_: Any, inputs: tuple[torch.Tensor], embedded: torch.Tensor) -> torch.Tensor:
        return embedded.masked_fill((inputs[0] == bad)[..., None], torch.nan)

    hook = model.module.get_input_embeddings().register_forward_hook(overflow)
    try:
        lost, rows = _forward([(spoiled, (*TEXT[:4], bad), 1), (other, TEXT[:5], 1)])
    finally:
        hook.remove()
    assert isinstance(lost, torch.Tensor)
    assert lost.isnan().any()
    assert isinstance(rows, torch.Tensor)
    assert_agree(rows, wanted[:1])
    assert_agree(other.logits(TEXT[:6]), wanted[1:])
