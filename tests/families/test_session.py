"""Sessions of every family: they score what transformers' own forward scores, whatever was fed or failed before.

An encoder pass a clip, and a right state after an error. What every family shares is asked of a thinker alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn

from specdec_cli.config.decoding_schema import DecodingConfig
from specdec_cli.decoding.next_scores import NextScores
from specdec_cli.errors import DecodingError
from specdec_cli.models import families as families_module
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.engine import _forward, forward_together
from specdec_cli.models.families import Family
from specdec_cli.models.selftest import self_test
from specdec_cli.models.session import Session
from tests.families.running import JOINING, families, joining, model, prompt
from tests.models.test_slots import recordable
from tests.support.checkpoints import assert_agree, cache_free_logits, load
from tests.support.kinds import KINDS, write
from tests.support.models import tiny_model
from tests.tiers import few, named

TEXT = (65, 66, 200, 67, 68, 201)


def session_of(of: AudioLM, clip: int = 1) -> Session:
    return Session(of, prompt(of, clip), 20)


def expected(of: AudioLM, clip: int, positions: int) -> torch.Tensor:
    """Cache-free logits of what follows the last prefixes of `TEXT`."""
    return cache_free_logits(of, prompt(of, clip), TEXT)[-positions:]


@families
def test_parts_that_speech_does_not_need_are_never_there(family):
    of = model(family, 0)
    unused = of.processor.family.unused
    assert not [name for name, _ in of.module.named_parameters() if name.startswith(unused or "none")]


def test_a_part_is_dropped_wherever_a_release_of_transformers_keeps_it(monkeypatch):
    class Older(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.visual, self.audio_tower, self.model = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)

    monkeypatch.setattr(families_module.transformers, "Older", Older, raising=False)
    family = Family("older", ("older",), "Older", unused=("visual.", "model.visual.", "talker."))
    assert {name.partition(".")[0] for name, _ in family.module_class().named_parameters()} == {"audio_tower", "model"}


@families
def test_a_verification_after_an_early_prefill_runs_the_encoder_once(family):
    of = model(family, 0)
    session = session_of(of)
    session.logits(())
    assert_agree(session.logits(TEXT, len(TEXT) + 1), expected(of, 1, len(TEXT) + 1))
    assert_agree(session.logits(TEXT[:2], 3), expected(of, 1, 7)[:3])
    for text in ((*TEXT[:5], 70), (*TEXT[:1], 71)):  # behind an earlier crop
        assert_agree(session.logits(text, 2), cache_free_logits(of, prompt(of, 1), text)[-2:])
    assert session.work.encoder_passes == 1
    late = session_of(of)  # the scores of the prompt itself were not kept, and it is read again for them
    late.logits(TEXT[:3], 1)
    assert_agree(late.logits(TEXT[:2], 3), expected(of, 1, 7)[:3])
    assert late.work.encoder_passes == 2


@pytest.mark.parametrize("graphs", ["off", "on"])
@joining
def test_a_prompt_that_is_read_in_chunks_scores_alike(tmp_path, family, graphs):
    of, parts = load(write(tmp_path / "model", KINDS[family], 0), graphs=graphs), list[int]()
    layer = of.module.get_decoder().layers[0]
    hook = layer.register_forward_pre_hook(
        lambda _, args, given: parts.append((args[0] if args else given["hidden_states"]).shape[1]), with_kwargs=True
    )
    of.read_in_chunks(16)
    session = session_of(of)
    session.logits(())
    hook.remove()
    assert sum(parts) == len(session.prompt.ids)
    assert max(parts) == 16
    assert session.work.encoder_passes == 1
    assert_agree(session.logits(TEXT, len(TEXT) + 1), expected(model(family, 0), 1, len(TEXT) + 1))


@contextmanager
def failing_layer(of: AudioLM) -> Iterator[None]:
    """The last decoder layer raises, when all others have extended the cache."""

    def fail(*_: Any) -> None:
        raise RuntimeError("half-way")

    hook = of.module.get_decoder().layers[-1].register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="half-way"):
        yield
    hook.remove()


@families
def test_a_forward_that_fails_half_way_leaves_the_session_right(family):
    of = model(family, 0)
    session = session_of(of)
    for text, positions in (((), 1), (TEXT[:3], 2), (TEXT, 4)):
        with failing_layer(of):
            session.logits(text, positions)
        scores = session.logits(text, positions)
    assert_agree(scores, expected(of, 1, 4))
    session.logits(TEXT[:4])
    with failing_layer(of), torch.inference_mode():
        session.step(torch.tensor(TEXT[4:5]))
    assert_agree(session.logits(TEXT, 2), expected(of, 1, 2))


@joining
def test_a_joint_forward_that_fails_half_way_leaves_every_session_right(family):
    of = model(family, 0)
    sessions = [session_of(of, clip) for clip in range(3)]
    for session in sessions:
        session.logits(())
    with failing_layer(of):
        forward_together([(session, TEXT, 4) for session in sessions])
    for clip, session in enumerate(sessions):
        assert_agree(session.logits(TEXT, 4), expected(of, clip, 4))


@families
@pytest.mark.parametrize("attention", few(["eager", "sdpa"]))
def test_the_attention_that_is_asked_for_is_that_of_the_decoder(tmp_path, family, attention):
    of = load(write(tmp_path / "model", KINDS[family], 0), attention=attention)
    assert of.module.get_decoder().config._attn_implementation == attention
    assert (of.joins, of.self_test) == (attention == "sdpa" and family in JOINING, "passed")
    assert_agree(session_of(of).logits(TEXT, 3), expected(of, 1, 3))


@pytest.mark.parametrize("family", named(KINDS, "qwen2-audio"))
def test_a_family_is_recorded_or_keeps_a_cache_that_grows(family):
    of = recordable(model(family, 0))
    try:
        self_test(of)
        assert (of.slots is None) == (family not in JOINING)
    finally:
        of.slots = None


@pytest.mark.parametrize("vocab_size", [None, 266, 260, 258])
def test_placeholders_are_impossible_and_padding_is_cut(vocab_size):
    of = tiny_model(0)
    processor = of.processor
    scores = Session(of, prompt(of, 1), 20, vocab_size).logits(TEXT[:3], 4)
    assert scores.shape == (4, vocab_size or 266)
    assert scores.dtype == torch.float32
    impossible = {id_ for id_ in processor.banned_ids if id_ < scores.shape[1]}
    assert {int(i) for i in torch.nonzero(scores[0] == -torch.inf)} == impossible
    assert {processor.token_text(id_) for id_ in processor.banned_ids} == {"<|AUDIO|>", "<|IMAGE|>", "<|VIDEO|>"}


@pytest.mark.parametrize("after", [0, 4])
def test_scores_that_are_not_finite_are_refused(after, monkeypatch):
    """NaN would choose tokens in silence. What was cached is forgotten, and a retry is right."""
    model = tiny_model(0)
    session, forward = session_of(model), model.forward
    scores = NextScores(session, DecodingConfig(), ())
    if after:
        scores.after(TEXT[:after])

    def overflowing(*args: Any, **kwargs: Any) -> Any:
        logits, *rest = forward(*args, **kwargs)
        return (torch.full_like(logits, torch.nan), *rest)

    monkeypatch.setattr(model, "forward", overflowing)
    scores.after(TEXT, 2)
    with pytest.raises(DecodingError, match="logits of tiny-0 are not finite") as error:
        scores.row(TEXT)
    assert not session.is_read
    assert "bfloat16" in str(error.value.hint)
    monkeypatch.undo()
    assert_agree(scores.after(TEXT, 2), expected(model, 1, 2))


def test_a_prompt_that_does_not_fit_the_context_is_refused_with_both_lengths():
    model = tiny_model(3)
    model.processor.context = 60
    clip = prompt(model, 1)
    with pytest.raises(DecodingError, match=rf"takes 60 tokens.*{len(clip.ids)}.*40 may follow") as error:
        Session(model, clip, 40)
    assert error.value.hint
    Session(model, clip, 60 - len(clip.ids))


def test_hidden_states_that_are_not_finite_reach_no_other_clip():
    """Clips lie end to end in one attention, where a masked key still counts: 0 times NaN is NaN."""
    model = tiny_model(2, layers=3)
    lone, other, spoiled = (session_of(model) for _ in range(3))
    for session in (lone, other, spoiled):
        session.logits(TEXT[:4])
    wanted = lone.logits(TEXT, 2)
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
    assert_agree(other.logits(TEXT), wanted[1:])
