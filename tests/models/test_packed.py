"""What a clip scores does not depend on the clips that share its forward, to the last bit."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import torch

from specdec_cli.errors import DecodingError
from specdec_cli.models.cache import BufferedCache
from specdec_cli.models.family import AudioFeatures, PromptInputs, Span
from specdec_cli.models.packed import ROW_MULTIPLE, PackedDecoder, filled
from specdec_cli.models.qwen_omni import QwenOmniThinker
from specdec_cli.models.session import Session, feed_together
from tests.tiny import tiny_clip, tiny_model, tiny_module

MKL = pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="equal bits are promised for MKL's kernels only")
CAPACITY = 40
TEXT = tuple(random.Random(4).randrange(256) for _ in range(30))


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """One and two CPU threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def _prompt(model: QwenOmniThinker, number: int) -> PromptInputs:
    return model.build_prompt("say how", model.features(tiny_clip(number, 0.3 + 0.2 * (number % 4))))


def _sessions(model: QwenOmniThinker, read: list[int]) -> list[Session]:
    """One session a clip, each with so many tokens of TEXT read; -1: nothing at all, not even the prompt."""
    sessions = [Session(model, _prompt(model, number), CAPACITY) for number in range(len(read))]
    for session, tokens in zip(sessions, read, strict=True):
        if tokens >= 0:
            session.advance(TEXT[:tokens], 1)
    return sessions


@MKL
@pytest.mark.parametrize(("inner", "outer"), [(32, 48), (48, 32), (128, 256), (192, 64), (512, 192)])
def test_rows_of_a_product_do_not_depend_on_their_number(inner: int, outer: int, threads: int) -> None:
    generator = torch.Generator().manual_seed(threads)
    weight = torch.randn(outer, inner, generator=generator)
    rows = torch.randn(100, inner, generator=generator)
    wanted = torch.nn.functional.linear(rows, weight)
    for count in range(1, 101):
        found = torch.nn.functional.linear(filled(rows[:count]), weight)
        assert torch.equal(found[:count], wanted[:count]), count


@MKL
@pytest.mark.parametrize("seed", range(4))
def test_scores_are_bit_equal_in_any_company(seed: int, threads: int) -> None:
    model, rng = tiny_model(seed, layers=1 + seed % 3), random.Random(seed)
    read = [rng.choice((-1, 0, 1, 5, 9)) for _ in range(2 + 3 * seed)]
    alone, together = _sessions(model, read), _sessions(model, read)
    for _ in range(3):
        asked = []
        for session in alone:
            ahead = min(len(session.cached_text) + rng.choice((1, 1, 2, 6)), len(TEXT))
            asked.append((TEXT[:ahead], rng.randint(1, ahead - len(session.cached_text))))
        wanted = [session.advance(*ask) for session, ask in zip(alone, asked, strict=True)]
        found = feed_together([session.ask(*ask) for session, ask in zip(together, asked, strict=True)])
        for mine, theirs in zip(found, wanted, strict=True):
            assert isinstance(mine, torch.Tensor)
            assert torch.equal(mine, theirs)
        for session, other in zip(together, alone, strict=True):
            assert session.cached_text == other.cached_text
            back = TEXT[: len(session.cached_text) - rng.randint(0, 2)]
            session.rollback(back)
            other.rollback(back)


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
def test_every_kernel_takes_several_clips(kernel: str) -> None:
    module = tiny_module(1)
    module.set_attn_implementation(kernel)
    model = QwenOmniThinker(kernel, module, tiny_model(1).processor)
    read = [-1, 3, 8]
    wanted = [session.advance(TEXT[:12], 4) for session in _sessions(model, read)]
    found = feed_together([session.ask(TEXT[:12], 4) for session in _sessions(model, read)])
    for mine, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-4)


def test_a_clip_of_noise_is_an_error_of_its_own() -> None:
    model = tiny_model(2)
    sound, other = _sessions(model, [-1, 4])
    prompt = _prompt(model, 0)
    values = torch.full_like(prompt.features.values, torch.nan)
    broken = Session(model, PromptInputs(prompt.ids, AudioFeatures(values, prompt.features.frames)), CAPACITY)
    passes = [session.ask(TEXT[:6], 1) for session in (sound, broken, other)]
    first, second, third = feed_together(passes)
    assert isinstance(second, DecodingError)
    assert broken.work.forwards == 0
    for found, session in zip((first, third), _sessions(model, [-1, 4]), strict=True):
        assert isinstance(found, torch.Tensor)
        torch.testing.assert_close(found, session.advance(TEXT[:6], 1), rtol=0, atol=1e-4)


def test_the_time_of_a_forward_is_shared_by_tokens() -> None:
    sessions = _sessions(tiny_model(0), [2, 2, 2])
    before = [session.work.step_ms for session in sessions]
    feed_together([session.ask(TEXT[: 2 + tokens], 1) for session, tokens in zip(sessions, (1, 2, 6), strict=True)])
    one, two, six = (session.work.step_ms - was for session, was in zip(sessions, before, strict=True))
    assert one > 0
    assert two == pytest.approx(2 * one)
    assert six == pytest.approx(6 * one)
    assert [session.work.forwards for session in sessions] == [2, 2, 2]


def test_positions_that_come_late_have_the_same_angles() -> None:
    """The rotary tables grow with the longest clip so far."""
    model = tiny_model(3)
    decoder = PackedDecoder(model.module.model.language_model)
    embeddings = model.embed(TEXT * 40)[0]

    def decode(by: PackedDecoder, start: int) -> torch.Tensor:
        """What follows the first `start` tokens."""
        cache = BufferedCache(model.layers, len(embeddings))
        by(embeddings[:start], (Span(0, start, cache),))
        return by(embeddings[start:][:9], (Span(start, 9, cache),))

    early = decode(decoder, 20)
    assert torch.equal(decode(decoder, 1100), decode(PackedDecoder(model.module.model.language_model), 1100))
    assert torch.equal(decode(decoder, 20), early)


def test_a_model_that_was_converted_goes_on_with_its_new_weights() -> None:
    model = QwenOmniThinker("converted", tiny_module(4), tiny_model(4).processor)
    prompt = _prompt(model, 1)
    before = Session(model, prompt, CAPACITY).advance(TEXT[:5], 3)
    model.module.bfloat16()
    after = Session(model, prompt, CAPACITY).advance(TEXT[:5], 3)
    fresh = QwenOmniThinker("fresh", model.module, model.processor)
    assert torch.equal(after, Session(fresh, prompt, CAPACITY).advance(TEXT[:5], 3))
    assert not torch.equal(after, before)


def test_filling_is_for_float32_on_the_cpu() -> None:
    assert len(filled(torch.ones(5, 3))) == 2 * ROW_MULTIPLE
    assert len(filled(torch.ones(8, 3))) == 8
    assert len(filled(torch.ones(0, 3))) == 0
    assert len(filled(torch.ones(5, 3, dtype=torch.bfloat16))) == 5
