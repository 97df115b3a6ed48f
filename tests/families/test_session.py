"""Sessions of every family: one encoder pass a clip, no scores that nobody wants, and a right state after an error."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn

from specdec_cli.models import families as families_module
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.engine import forward_together
from specdec_cli.models.families import Family
from specdec_cli.models.selftest import self_test
from specdec_cli.models.session import Session
from tests.families.running import JOINING, families, joining, model, prompt
from tests.models.test_slots import recordable
from tests.support.checkpoints import assert_agree, cache_free_logits, load
from tests.support.kinds import KINDS, write
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
    session.prefill()
    assert_agree(session.logits(TEXT, len(TEXT) + 1), expected(of, 1, len(TEXT) + 1))
    assert_agree(session.logits(TEXT[:2], 3), expected(of, 1, 7)[:3])
    for text in ((*TEXT[:5], 70), (*TEXT[:1], 71)):  # behind an earlier crop
        assert_agree(session.logits(text, 2), cache_free_logits(of, prompt(of, 1), text)[-2:])
    assert session.work.encoder_passes == 1


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
    session.prefill()
    hook.remove()
    assert sum(parts) == len(session.prompt.ids)
    assert max(parts) == 16
    assert session.work.encoder_passes == 1
    assert_agree(session.logits(TEXT, len(TEXT) + 1), expected(model(family, 0), 1, len(TEXT) + 1))


@families
def test_the_output_layer_computes_wanted_rows_only(family):
    """Their strides are as if the other rows had never been."""
    of, rows = model(family, 0), list[int]()

    def enter(_module: object, inputs: tuple[torch.Tensor, ...]) -> None:
        assert inputs[0].stride() == torch.empty(inputs[0].shape).stride()
        rows.append(inputs[0].shape[-2])

    hook = of.module.get_output_embeddings().register_forward_pre_hook(enter)
    session = session_of(of)
    session.prefill()
    session.logits(TEXT[:3])
    session.logits(TEXT, 4)
    session_of(of).logits(TEXT, 5)
    hook.remove()
    assert rows == [1, 1, 4, 5]


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


@joining
def test_a_joint_forward_that_fails_half_way_leaves_every_session_right(family):
    of = model(family, 0)
    sessions = [session_of(of, clip) for clip in range(3)]
    for session in sessions:
        session.prefill()
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
