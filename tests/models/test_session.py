"""A session scores what transformers' own forward scores, whatever was fed ahead, rolled back or read in between."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
import torch

from specdec_cli.errors import CacheError, DecodingError
from specdec_cli.models.cache import BufferedLayer
from specdec_cli.models.family import PromptInputs
from specdec_cli.models.qwen_omni import QwenOmniThinker
from specdec_cli.models.session import Session
from specdec_cli.types import ModelWork
from tests.models.checkpoints import load, write_thinker
from tests.models.hub_numbers import audio_model
from tests.table import START, certain
from tests.tiny import tiny_clip, tiny_model, tiny_module

VOCAB = 266
CAPACITY = 40
TEXT = tuple(random.Random(1).randrange(256) for _ in range(30))


@cache
def _case(seed: int, seconds: float = 0.7) -> tuple[QwenOmniThinker, PromptInputs]:
    model = tiny_model(seed, layers=1 + seed % 3)
    return model, model.build_prompt("say how", model.features(tiny_clip(seed, seconds)))


def _session(seed: int = 0, capacity: int = CAPACITY, vocab_size: int | None = VOCAB) -> Session:
    return Session(*_case(seed), capacity, vocab_size)


def _reference(model: QwenOmniThinker, prompt: PromptInputs, text: Sequence[int]) -> torch.Tensor:
    """transformers' own forward over prompt + text, with its own masks and positions: [len(text) + 1, vocab_size].

    Row i is the distribution after text[:i].
    """
    ids = torch.tensor([[*prompt.ids, *text]])
    logits: torch.Tensor = model.module(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        input_features=prompt.features.values[None],
        feature_attention_mask=torch.ones(1, prompt.features.frames, dtype=torch.long),
    ).logits[0, len(prompt.ids) - 1 :, :VOCAB]
    logits[:, list(model.placeholder_ids)] = -torch.inf
    return logits


def _assert_close(found: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-4)
    assert torch.equal(found.argmax(-1), wanted.argmax(-1))


# --- against transformers ---


@pytest.mark.parametrize("seed", range(6))
def test_one_pass_equals_token_by_token_equals_transformers(seed: int) -> None:
    wanted = _reference(*_case(seed), TEXT)
    _assert_close(_session(seed).advance(TEXT, len(TEXT) + 1), wanted)
    stepping = _session(seed)
    for i in range(len(TEXT) + 1):
        _assert_close(stepping.advance(TEXT[:i], 1), wanted[i : i + 1])


@pytest.mark.parametrize("seed", range(4))
def test_a_random_walk_of_drafts_and_rollbacks_equals_transformers(seed: int) -> None:
    rng = random.Random(seed)
    session, (model, prompt) = _session(seed), _case(seed)
    wanted = _reference(model, prompt, TEXT)
    committed = 0
    while committed < len(TEXT) - 1:
        session.rollback(TEXT[:committed])
        draft = [rng.randrange(256) for _ in range(rng.randint(1, 6))]
        agreed = rng.randint(0, min(len(draft), len(TEXT) - committed))
        text = [*TEXT[: committed + agreed], *draft[agreed:]]
        if rng.random() < 0.5:
            scores = session.advance(text, len(text) - committed + 1)
            _assert_close(scores[: agreed + 1], wanted[committed : committed + agreed + 1])
        else:
            for i in range(committed, len(text) + 1):
                scores = session.advance(text[:i], 1)
                if i <= committed + agreed:
                    _assert_close(scores, wanted[i : i + 1])
        committed = min(len(TEXT) - 1, committed + agreed + 1)


def test_a_single_step_deep_in_a_text_has_the_right_position() -> None:
    """A mask of length one would have put it at position 0."""
    model, prompt = _case(1, 4.0)
    assert len(prompt.ids) > 120
    session = Session(model, prompt, CAPACITY, VOCAB)
    session.advance(TEXT, 1)
    session.rollback(TEXT)
    _assert_close(session.advance(TEXT, 1), _reference(model, prompt, TEXT)[-1:])


def test_a_session_at_the_published_audio_numbers() -> None:
    model = audio_model(128, 300, 100)
    prompt = model.build_prompt("how?", model.features(tiny_clip(4, 9.7)))
    assert len(prompt.ids) > 240
    found = Session(model, prompt, CAPACITY, VOCAB).advance(TEXT[:8], 9)
    _assert_close(found, _reference(model, prompt, TEXT[:8]))


@pytest.mark.parametrize("seed", range(3))
def test_attention_kernels_agree(seed: int) -> None:
    module = tiny_module(seed)
    prompt = _case(seed)[1]
    scores = []
    for kernel in ("sdpa", "eager"):
        module.set_attn_implementation(kernel)
        model = QwenOmniThinker(kernel, module, tiny_model(seed).processor)
        assert model._own_masks == (kernel == "sdpa")
        session = Session(model, prompt, CAPACITY, VOCAB)
        rows = [session.advance(TEXT[:9], 10)]
        session.rollback(TEXT[:4])
        rows += [session.advance(TEXT[:4], 1), session.advance(TEXT[:12], 8)]
        scores.append(torch.cat(rows))
    _assert_close(*scores)
    _assert_close(scores[0][:10], _reference(model, prompt, TEXT[:9]))


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
def test_a_kernel_is_passed_on_to_the_checkpoint(tmp_path: Any, kernel: str) -> None:
    folder = write_thinker(tmp_path / "m", tiny_module(0))
    model = load(folder, attention=kernel)
    prompt = model.build_prompt("say how", model.features(tiny_clip(0)))
    _assert_close(Session(model, prompt, CAPACITY, VOCAB).advance(TEXT, 31), _reference(model, prompt, TEXT))
    assert model.module.config.get_text_config()._attn_implementation == kernel
    assert model.module.model.audio_tower.config._attn_implementation == kernel


def test_sliding_window_layers_are_masked_as_transformers_does() -> None:
    module = tiny_module(2)
    text = module.config.get_text_config()
    text.layer_types, text.sliding_window, text.use_sliding_window = ["full_attention", "sliding_attention"], 8, True
    for layer, kind in zip(module.model.language_model.layers, text.layer_types, strict=True):
        layer.self_attn.sliding_window = 8 if kind == "sliding_attention" else None
        layer.attention_type = kind
    module.model.language_model.has_sliding_layers = True
    model = QwenOmniThinker("sliding", module, tiny_model(2).processor)
    prompt = _case(2)[1]
    session = Session(model, prompt, CAPACITY, VOCAB)
    wanted = _reference(model, prompt, TEXT)
    assert not torch.allclose(wanted, _reference(tiny_model(2), prompt, TEXT), atol=0.1)
    _assert_close(session.advance(TEXT[:20], 21), wanted[:21])
    session.rollback(TEXT[:9])
    _assert_close(session.advance(TEXT, 22), wanted[9:])


# --- sessions and time ---


@pytest.mark.parametrize("seed", range(3))
def test_reading_ahead_equals_reading_when_needed(seed: int) -> None:
    early, late = _session(seed), _session(seed)
    early.prefill()
    assert early.length == len(early.prompt_ids) - 1
    early.prefill()
    _assert_close(early.advance(TEXT[:5], 6), late.advance(TEXT[:5], 6))
    assert (early.work.encoder_passes, late.work.encoder_passes) == (1, 1)
    assert (early.work.forwards, late.work.forwards) == (2, 1)
    early.prefill()
    assert early.work.forwards == 2


def test_two_clips_on_one_model_do_not_disturb_each_other() -> None:
    model = tiny_model(1)
    prompts = [model.build_prompt("say how", model.features(tiny_clip(i, 0.4 + 0.5 * i))) for i in range(2)]
    alone: list[list[torch.Tensor]] = []
    for prompt in prompts:
        session = Session(model, prompt, CAPACITY, VOCAB)
        alone.append([session.advance(TEXT[:i], 1) for i in range(12)])
    sessions = [Session(model, prompt, CAPACITY, VOCAB) for prompt in prompts]
    rng = random.Random(0)
    done = [0, 0]
    while min(done) < 12:
        which = rng.randrange(2)
        if done[which] == 12:
            which = 1 - which
        found = sessions[which].advance(TEXT[: done[which]], 1)
        assert torch.equal(found, alone[which][done[which]])
        done[which] += 1
    assert not torch.equal(alone[0][0], alone[1][0])


def test_other_use_of_the_model_does_not_disturb_a_session() -> None:
    """`generate` and a plain forward leave `rope_deltas` behind on the model."""
    model, prompt = _case(2)
    wanted = _session(2).advance(TEXT, 31)
    session = _session(2)
    first = session.advance(TEXT[:3], 1)
    model.module.generate(
        input_ids=torch.tensor([[5, 6, 7]]), attention_mask=torch.ones(1, 3, dtype=torch.long), max_new_tokens=4
    )
    _reference(model, prompt, TEXT[:2])
    _assert_close(torch.cat([first, session.advance(TEXT, 27)]), wanted[3:])


# --- what may be said ---


@pytest.mark.parametrize("vocab_size", [None, 288, VOCAB, 260, 258])
def test_placeholders_are_impossible_and_padding_is_cut(vocab_size: int | None) -> None:
    model, _ = _case(0)
    scores = _session(0, vocab_size=vocab_size).advance(TEXT[:3], 4)
    assert scores.shape == (4, vocab_size or 288)
    assert scores.dtype == torch.float32
    impossible = {id_ for id_ in model.placeholder_ids if id_ < scores.shape[1]}
    assert {int(i) for i in torch.nonzero(scores[0] == -torch.inf)} == impossible
    assert len(model.placeholder_ids) == 3
    assert {model.tokenizer.decode([id_]) for id_ in model.placeholder_ids} == {"<|AUDIO|>", "<|IMAGE|>", "<|VIDEO|>"}


def test_the_audio_reaches_the_scores() -> None:
    model = tiny_model(0)
    scores = []
    for clip in range(2):
        prompt = model.build_prompt("say how", model.features(tiny_clip(clip)))
        scores.append(Session(model, prompt, CAPACITY).advance((), 1))
    assert not torch.allclose(scores[0][:, :250], scores[1][:, :250], atol=1e-2)


# --- rolling back ---


def test_rolling_back_keeps_the_common_part_and_something_to_feed() -> None:
    session = _session()
    prompt = len(session.prompt_ids)
    session.rollback(())
    session.rollback(TEXT[:3])
    assert (session.length, session.cached_text) == (0, ())  # nothing was cached
    session.advance(TEXT[:6], 1)
    assert (session.length, session.cached_text) == (prompt + 6, TEXT[:6])
    session.rollback(TEXT[:9])  # the text went on: all is kept
    assert session.cached_text == TEXT[:6]
    session.rollback(TEXT[:6])  # the whole text: its last token is to be fed again
    assert (session.length, session.cached_text) == (prompt + 5, TEXT[:5])
    session.rollback((*TEXT[:2], 999, *TEXT[3:9]))  # differs in the middle
    assert session.cached_text == TEXT[:2]
    session.rollback((999,))  # differs at once
    assert (session.length, session.cached_text) == (prompt, ())
    session.rollback(())  # no text: the prompt's last token is to be fed again
    assert (session.length, session.cached_text) == (prompt - 1, ())
    session.rollback(())
    assert session.length == prompt - 1


@pytest.mark.parametrize("cached", [0, 1, 2, 5])
@pytest.mark.parametrize("kept", [0, 1, 2, 5])
def test_after_any_rollback_scores_are_the_same(cached: int, kept: int) -> None:
    session = _session(1)
    session.advance((*TEXT[:cached], 200, 201), 1)
    session.rollback(TEXT[:kept])
    assert session.length < len(session.prompt_ids) + max(kept, 1)
    _assert_close(session.advance(TEXT[:kept], 1), _reference(*_case(1), TEXT[:kept])[-1:])


def test_going_on_without_rolling_back_is_a_bug_and_says_so() -> None:
    session = _session()
    session.advance(TEXT[:6], 1)
    for text in (TEXT[:5], (), (*TEXT[:5], 1), (1, *TEXT[1:8])):
        with pytest.raises(CacheError, match="tiny-0 holds 6 tokens that are not the text's"):
            session.advance(text, 1)
    with pytest.raises(CacheError, match="1 positions were to be scored, but 0 tokens"):
        session.advance(TEXT[:6], 1)
    with pytest.raises(CacheError, match="3 positions were to be scored, but 2 tokens"):
        session.advance(TEXT[:8], 3)
    assert session.cached_text == TEXT[:6]


def test_more_text_than_the_capacity_is_an_error() -> None:
    session = _session(capacity=4)
    session.advance(TEXT[:4], 1)
    with pytest.raises(CacheError, match="positions"):
        session.advance(TEXT[:5], 1)
    assert session.cached_text == TEXT[:4]
    session.rollback(TEXT[:2])
    _assert_close(session.advance(TEXT[:4], 3), _reference(*_case(0), TEXT[:4])[2:])


@pytest.mark.parametrize("interrupted", range(1, 4))
def test_a_pass_that_was_interrupted_can_be_repeated(interrupted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some layers had taken the new keys, others not; the session knows what it has read."""
    wanted = _reference(*_case(2), TEXT[:8])
    for before in ((), TEXT[:3]):
        session = _session(2)
        if before:
            session.advance(before, 1)
        calls = 0
        update = BufferedLayer.update

        def failing(layer: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == interrupted:
                raise KeyboardInterrupt
            return update(layer, *args, **kwargs)  # noqa: B023

        monkeypatch.setattr(BufferedLayer, "update", failing)
        with pytest.raises(KeyboardInterrupt):
            session.advance(TEXT[:8], 1)
        monkeypatch.setattr(BufferedLayer, "update", update)
        assert session.cached_text == before
        _assert_close(session.advance(TEXT[:8], 1), wanted[-1:])
        assert {layer.get_seq_length() for layer in session._cache.layers} == {session.length}


# --- the account of the work ---


def _counts(work: ModelWork) -> tuple[int, int, int, int]:
    return work.encoder_passes, work.forwards, work.prompt_tokens, work.fed_tokens


def test_work_is_counted() -> None:
    session = _session()
    prompt = len(session.prompt_ids)
    assert session.work == ModelWork(prompt_tokens=prompt)
    session.prefill()
    assert _counts(session.work) == (1, 1, prompt, 0)
    session.advance(TEXT[:3], 2)
    assert _counts(session.work) == (1, 2, prompt, 3)
    session.rollback(TEXT[:1])
    session.advance(TEXT[:1], 1)  # feeds one token for a second time
    assert _counts(session.work) == (1, 3, prompt, 4)
    session.rollback(())
    session.advance((), 1)  # feeds the prompt's last token again, which is no text
    assert _counts(session.work) == (1, 4, prompt, 4)
    session.advance(TEXT[:7], 1)
    assert _counts(session.work) == (1, 5, prompt, 11)
    work = session.work
    assert min(work.encoder_ms, work.prefill_ms, work.step_ms) > 0


def test_work_of_a_lazy_session_is_one_forward() -> None:
    session = _session()
    session.advance(TEXT[:2], 3)
    assert _counts(session.work) == (1, 1, len(session.prompt_ids), 2)
    assert session.work.step_ms == 0


def test_the_audio_tower_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model, prompt = _case(0)
    runs = 0
    handle = model.module.model.audio_tower.register_forward_hook(lambda *_: _count())

    def _count() -> None:
        nonlocal runs
        runs += 1

    session = Session(model, prompt, CAPACITY)
    for i in range(5):
        session.advance(TEXT[:i], 1)
        session.rollback(TEXT[: i // 2])
    session.rollback(())
    session.advance(TEXT[:5], 1)
    handle.remove()
    assert runs == session.work.encoder_passes == 1


def test_a_session_feeds_a_lookup_table_in_order() -> None:
    model = certain({"^": "a", "a": "b", "b": "c", "c": ""})
    prompt = model.build_prompt("", model.features(None))
    session = Session(model, prompt, 10)
    text: list[int] = []
    while not text or text[-1] != 1:
        text.append(int(session.advance(text, 1).argmax()))
    assert text == [2, 3, 4, 1]
    assert model.fed == [(0, START), (1, START), (2, 2), (3, 3), (4, 4)]


def test_a_prompt_that_does_not_fit_the_context_is_refused_with_both_lengths() -> None:
    model = tiny_model(3)
    model.context = 60
    prompt = model.build_prompt("say how", model.features(tiny_clip(0)))
    with pytest.raises(DecodingError, match=rf"takes 60 tokens.*{len(prompt.ids)}.*40 may follow") as caught:
        Session(model, prompt, 40)
    assert caught.value.hint
    Session(model, prompt, 60 - len(prompt.ids))
