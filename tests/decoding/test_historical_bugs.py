"""What went wrong in earlier code of this kind, each as a test that would have caught it."""

from __future__ import annotations

import pytest
import torch
from transformers import RepetitionPenaltyLogitsProcessor

from specdec_cli.decoding.gate import make_gate
from specdec_cli.decoding.options import DecodingOptions
from specdec_cli.decoding.processors import ScoreProcessors
from specdec_cli.errors import CacheError
from specdec_cli.models.family import PromptInputs
from specdec_cli.models.session import Session
from specdec_cli.types import DEFAULT_THRESHOLDS
from tests.laws.cases import cloud, collect, generate, inputs, make_case
from tests.table import TableModel, certain, spelled, table_engine

CPU = torch.device("cpu")


def _session(seed: int = 0) -> Session:
    model = cloud(seed)
    return Session(model, inputs(("cloud", seed), 0, 0), 64, 266)


def _processors(**options: object) -> ScoreProcessors:
    return ScoreProcessors(DecodingOptions(mode="edge", **options), [0, 2], [1], CPU)  # type: ignore[arg-type]


def test_a_block_advances_the_cache_once() -> None:
    """Drafting and then "updating the context" fed a block twice; the cache ran ahead of the text: ABABAB."""
    edge = certain({"^": "a", "a": "b", "b": "c", "c": "d", "d": ""})
    sure = certain({"^": "a", "a": "b", "b": "c", "c": "d", "d": ""})
    _, finished = collect(table_engine(edge, sure, mode="lossless", k=2).run())
    assert spelled(edge, finished.token_ids) == "abcd"
    for model in (edge, sure):
        positions = [position for position, _ in model.fed]
        assert positions == sorted(set(positions)), "a position was fed again although nothing was rejected"


def test_the_seed_of_a_block_is_the_tail_of_the_text() -> None:
    """A stale `last_token_id` seeded the block after a correction: 78685, 78685, 78685."""
    edge = certain({"^": "a", "a": "a", "c": "d", "d": ""})  # says "aaa" until it is told otherwise
    sure = certain({"^": "a", "a": "c", "c": "d", "d": ""})
    rounds, finished = collect(table_engine(edge, sure, mode="lossless", k=3).run())
    assert spelled(edge, finished.token_ids) == "acd"
    assert spelled(edge, rounds[0].committed_ids) == "ac"
    assert spelled(edge, rounds[1].draft_ids) == "d", "the second block must set out from the correction"


def test_rolling_back_removes_keys_and_values() -> None:
    """A kept reference to a cache that is changed in place was no rollback at all."""
    session, fresh = _session(), _session()
    session.advance([5, 6, 7, 8], 1)
    session.rollback([5, 9])
    assert session.length == len(session.prompt_ids) + 1
    assert all(layer.get_seq_length() == session.length for layer in session._cache.layers)
    torch.testing.assert_close(session.advance([5, 9], 1), fresh.advance([5, 9], 1), rtol=0, atol=1e-4)


def test_the_last_prompt_token_is_fed_once() -> None:
    """It was prefilled, and then fed again as the first seed."""
    for early in (False, True):
        session = _session()
        if early:
            session.prefill()
            assert session.length == len(session.prompt_ids) - 1
        session.advance([], 1)
        assert session.length == len(session.prompt_ids)
        with pytest.raises(CacheError):
            session.advance([], 1)


def test_a_penalty_lowers_tokens_with_negative_logits_too() -> None:
    """`logits /= p` raises the probability of a token whose logit is negative."""
    logits = torch.tensor([[-2.0, -1.0, 3.0, -4.0]])
    scores = _processors(repetition_penalty=2.0)([3], logits)
    assert scores.tolist() == [[-4.0, -1.0, 1.5, -8.0]]


def test_an_ngram_ban_stops_abab() -> None:
    """A "2-gram ban" that forbade only A A let A B A B pass."""
    model = TableModel(torch.tensor([[0.0] * 6] * 6))
    model.table[0, 2] = model.table[3, 2] = 5.0  # ^ -> a, b -> a
    model.table[2, 3] = 5.0  # a -> b
    _, free = collect(table_engine(model, None, k=4, max_new_tokens=8, loop_period=0).run())
    assert spelled(model, free.token_ids) == "abababab"
    _, banned = collect(table_engine(model, None, k=4, max_new_tokens=8, loop_period=0, no_repeat_ngram=2).run())
    text = spelled(model, banned.token_ids)
    bigrams = [text[i : i + 2] for i in range(len(text) - 1)]
    assert len(bigrams) == len(set(bigrams))


def test_penalties_see_the_history_across_blocks() -> None:
    """They looked at the current block only. With k=1 no block has a history of its own."""
    for number in range(90_000, 90_020):
        case = make_case(number, mode="edge", k=1, repetition_penalty=1.8, no_repeat_ngram=2, loop_period=0)
        assert case.pair.edge is not None
        expected = generate(case.pair.edge, case.edge_inputs, case.pair.vocab_size, case.options)
        assert list(case.run()[1].token_ids) == expected


def test_each_position_of_a_verified_block_has_its_own_history() -> None:
    """One shared history for all rows penalises a drafted token before it was said."""
    logits = torch.zeros(3, 8)
    logits[:, 5] = 4.0
    text = [4, 5, 6]  # committed 4, drafted 5 and 6: rows follow [4], [4, 5], [4, 5, 6]
    scores = _processors(repetition_penalty=2.0)(text, logits)
    assert scores[:, 5].tolist() == [4.0, 2.0, 2.0]
    library = RepetitionPenaltyLogitsProcessor(2.0)
    for row in range(3):
        history = torch.tensor([[0, 2, *text[: row + 1]]])
        assert torch.equal(scores[row : row + 1], library(history, logits[row : row + 1]))


def test_temperature_is_applied_once() -> None:
    logits = torch.randn(2, 8, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(_processors(temperature=0.5)([3, 4], logits), logits / 0.5)


def test_a_single_step_deep_in_a_text_keeps_its_position() -> None:
    """A 1x1 attention mask reset the position to zero, off by 9.4 in the logits."""
    model, prompt = cloud(2), inputs(("cloud", 2), 1, 0)
    session = Session(model, prompt, 64, 266)
    text = list(range(20, 50))
    stepwise = torch.cat([session.advance(text[: n + 1], 1) for n in range(len(text))])
    ids = torch.tensor([[*prompt.ids, *text]])
    with torch.no_grad():
        full = model.module(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            input_features=prompt.features.values[None],
            feature_attention_mask=torch.ones(1, prompt.features.frames, dtype=torch.long),
        ).logits[0, -len(text) :, :266]
    allowed = torch.tensor([i for i in range(266) if i not in model.placeholder_ids])
    torch.testing.assert_close(stepwise[:, allowed], full[:, allowed], rtol=0, atol=1e-3)


def test_stop_rules_do_not_shorten_a_draft() -> None:
    """They ran inside the draft and cut blocks short; they belong to committed text."""
    edge = certain({"^": "a", "a": "b", "b": "c", "c": "d", "d": "e", "e": ""})
    rounds, finished = collect(table_engine(edge, None, k=4, stop_strings=("b",)).run())
    assert spelled(edge, rounds[0].draft_ids) == "abcd"
    assert spelled(edge, finished.token_ids) == "ab"
    assert finished.finish_reason == "stop_string"


def test_one_pass_equals_token_by_token() -> None:
    """Advancing token by token was believed to be more correct. It is only slower."""
    text = [30, 31, 32, 33, 34, 35]
    for seed in range(6):
        at_once, stepwise = _session(seed), _session(seed)
        block = at_once.advance(text, 6)
        steps = torch.cat([stepwise.advance(text[: n + 1], 1) for n in range(6)])
        finite = block.isfinite()
        torch.testing.assert_close(block[finite], steps[finite], rtol=0, atol=2e-4)
        assert torch.equal(block.argmax(-1), steps.argmax(-1))


def test_a_loop_does_not_truncate_a_caption_that_the_cloud_can_save() -> None:
    """A loop detector that stops costs the rest of the caption."""
    edge = certain({"^": "a", "a": "a", "c": "d", "d": ""})
    sure = certain({"^": "a", "a": "c", "c": "d", "d": ""})
    rounds, finished = collect(table_engine(edge, sure, mode="hybrid", gate="never", k=5).run())
    assert rounds[0].reason == "loop"
    assert spelled(edge, finished.token_ids) == "acd"
    assert finished.finish_reason == "eos"


def test_the_default_entropy_threshold_stops_bad_blocks() -> None:
    """A threshold of 4.0 waved them through: e^4 is 55 equally likely tokens."""
    assert DEFAULT_THRESHOLDS["entropy"] <= 1.5
    flat = TableModel(torch.zeros(6, 6))  # ln 6 = 1.79 nats at every token
    sure = certain({"^": "c", "c": ""}, size=6)
    rounds, _ = collect(table_engine(flat, sure, mode="hybrid", gate="entropy").run())
    assert rounds[0].escalated
    assert make_gate("entropy").threshold == DEFAULT_THRESHOLDS["entropy"]


def test_the_edge_baseline_is_the_same_engine() -> None:
    """The baseline used other decoding code, so nothing could be compared."""
    for number in range(91_000, 91_030):
        alone = make_case(number, mode="edge", loop_period=0)
        gated = make_case(number, mode="hybrid", gate="never", loop_period=0)
        assert alone.run()[1].token_ids == gated.run()[1].token_ids


def test_generated_placeholders_are_banned() -> None:
    """A generated audio placeholder breaks a re-prefill."""
    model, prompt = cloud(0), inputs(("cloud", 0), 0, 0)
    session = Session(model, PromptInputs(prompt.ids, prompt.features), 8, 266)
    logits = session.advance([5, 6], 2)
    assert logits[:, list(model.placeholder_ids)].max() == -torch.inf


def test_neither_model_says_what_the_other_cannot() -> None:
    """3B and 7B pad their vocabularies differently: a padded row that wins must not be drafted nor verified."""
    edge = certain({"^": "c", "c": "d", "d": ""}, size=6)
    padded = TableModel(torch.nn.functional.pad(edge.table, (0, 2, 0, 2)))
    padded.table[:, 7] = 99.0  # a padding row that would win everywhere
    padded.tokenizer = edge.tokenizer
    for drafter, verifier in ((edge, padded), (padded, edge)):
        for mode in ("lossless", "hybrid", "cloud", "edge"):
            _, finished = collect(table_engine(drafter, verifier, mode=mode, gate="always").run())
            assert spelled(edge, finished.token_ids) == "cd"
