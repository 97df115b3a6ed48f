"""The rules, applied to a server's few likeliest tokens, say what they say with the whole distributions."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
import torch

from specdec_cli.cloud.vllm_protocol import MOST_CANDIDATES, GenerateRequest, Scored, read_answer
from specdec_cli.cloud.vllm_verifier import TIE, VllmRules
from specdec_cli.config import AcceptanceConfig
from specdec_cli.config.checks import beyond_likeliest
from specdec_cli.decoding.accept import Verdict, accept_block
from specdec_cli.decoding.block import Draft
from specdec_cli.models.processor import effective
from tests.cloud.vllm_cases import cloud
from tests.tiny import settings as configured

VOCAB, PADDED = 60, 70  # ids that may be said, and rows that the server scores
PROMPT = 7
SYNONYMS = {id_: id_ // 3 for id_ in range(VOCAB)}
GREEDY = AcceptanceConfig()


def _told(logprobs: torch.Tensor, asked: int | None, candidates: int) -> dict[str, dict[str, float]]:
    """A position as a server tells it: the likeliest tokens, and the one that it was asked about."""
    order = logprobs.argsort(descending=True, stable=True).tolist()
    ids = [*order[:candidates], *([] if asked is None else [asked])]
    return {str(id_): {"logprob": float(logprobs[id_]), "rank": order.index(id_) + 1} for id_ in ids}


def _reply(logits: torch.Tensor, draft: tuple[int, ...], candidates: int) -> Scored:
    """What a server answers that gives `logits` [m + 1, rows] to a draft and what follows it."""
    rows = logits.log_softmax(dim=-1)
    question = GenerateRequest((*[0] * PROMPT, *draft), PROMPT + len(draft), len(draft), 1, candidates)
    behind = _told(rows[-1], None, candidates)
    first = next(iter(behind))
    scored = [{"token_id": int(id_), **values} for id_, values in behind.items()]
    answer: dict[str, Any] = {
        "usage": {"prompt_tokens": question.length},
        "prompt_logprobs": [None] * PROMPT
        + [_told(row, id_, candidates) for row, id_ in zip(rows, draft, strict=False)],
        "choices": [{"token_ids": [int(first)], "logprobs": {"content": [{**scored[0], "top_logprobs": scored}]}}],
    }
    return read_answer(json.dumps(answer).encode(), question)


def _mine(rules: VllmRules, logits: torch.Tensor, draft: tuple[int, ...]) -> Verdict | None:
    for candidates in (rules.needed + 1, MOST_CANDIDATES):
        at_most = candidates == MOST_CANDIDATES
        if (judged := rules.verdict(draft, _reply(logits, draft, candidates), at_most=at_most)) is not None:
            return judged
    return None


@pytest.mark.parametrize("rule", ["greedy", "rank", "class"])
@pytest.mark.parametrize("pull", [0.0, 3.0])
def test_few_candidates_judge_like_whole_distributions(rule: Any, pull: float) -> None:
    """`pull` makes tokens likely that may not be said."""
    rng = random.Random(f"{rule}{pull}")
    generator = torch.Generator().manual_seed(rng.randrange(1000))
    accepted = set()
    for number in range(1000):
        banned = tuple(rng.sample(range(VOCAB), rng.randint(0, 3)))
        rules = AcceptanceConfig(rule=rule, rank=rng.randint(1, 6))
        logits = 2 * torch.randn(rng.randint(1, 6), PADDED, generator=generator)
        forbidden = [*banned, *range(VOCAB, PADDED)]
        logits[:, forbidden] += pull
        masked = logits.index_fill(1, torch.tensor(forbidden), -torch.inf)[:, :VOCAB]
        likely = masked.topk(1 + rng.choice((0, 0, 3, 20)), dim=-1).indices
        draft = tuple(rng.choice(row) for row in likely[:-1].tolist())
        wanted = accept_block(Draft(draft, masked[:-1]), masked, rules, generator, sampling=False, synonyms=SYNONYMS)
        found = _mine(VllmRules(rules, frozenset(banned), VOCAB, SYNONYMS), logits, draft)
        assert found is not None, number
        assert (found.accepted, found.token, *found.more) == wanted, number
        best = masked[: found.accepted + 1].topk(2).values
        assert found.near_ties in (None, int((best[:, 0] - best[:, 1] <= TIE).sum())), number
        accepted.add(found.accepted)
    assert accepted == set(range(6))


def test_of_equally_likely_tokens_the_lowest_id_wins_as_in_process() -> None:
    logits = torch.zeros(2, PADDED)
    logits[0, [11, 5, 40]] = 4.0
    logits[1, [9, 30]] = 4.0
    found = _mine(VllmRules(GREEDY, frozenset(), VOCAB), logits, (5,))
    assert found is not None
    assert found == Verdict(1, 9, (), 2)


def test_what_was_generated_behind_a_token_that_may_not_be_said_is_dropped() -> None:
    def scored(best: int, second: int) -> dict[str, Any]:
        tokens = [{"token_id": best, "logprob": -0.1, "rank": 1}, {"token_id": second, "logprob": -3.0, "rank": 2}]
        return {**tokens[0], "top_logprobs": tokens}

    content = [scored(3, 4), scored(VOCAB + 2, 8), scored(5, 6)]
    answer = {
        "usage": {"prompt_tokens": 2},
        "choices": [{"token_ids": [3, VOCAB + 2, 5], "logprobs": {"content": content}}],
    }
    reply = read_answer(json.dumps(answer).encode(), GenerateRequest((0, 0), 2, 0, 3, 2))
    found = VllmRules(GREEDY, frozenset(), VOCAB).verdict((), reply)
    assert found == Verdict(0, 3, (8,), 0)


def test_a_drafted_token_whose_rank_no_reply_tells_is_not_kept() -> None:
    logits = torch.arange(PADDED, 0, -1.0).repeat(2, 1)  # the likeliest is id 0, and so on
    banned = frozenset(range(5, 15))
    rules = VllmRules(AcceptanceConfig(rule="rank", rank=12), banned, VOCAB)
    assert rules.verdict((21,), _reply(logits, (21,), MOST_CANDIDATES)) is None  # 12th among those that may be said
    assert _mine(rules, logits, (21,)) == Verdict(0, 0, (), 0)
    assert _mine(rules, logits, (19,)) == Verdict(1, 0, (), 0)


def beyond(**settings: Any) -> list[str]:
    config = configured(mode="hybrid", **settings)
    return [name for name, _ in beyond_likeliest(effective(config.decoding, cloud().processor), config.acceptance)]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"temperature": 0.7}, "decoding.temperature"),
        ({"acceptance": "prob"}, "acceptance.rule"),
        ({"acceptance": "typical"}, "acceptance.rule"),
        ({"acceptance": "rank", "rank": 17}, "acceptance.rank"),
        ({"repetition_penalty": 1.2}, "decoding.repetition_penalty"),
        ({"no_repeat_ngram": 3}, "decoding.no_repeat_ngram"),
        ({"min_new_tokens": 4}, "decoding.min_new_tokens"),
    ],
)
def test_settings_that_need_more_than_a_server_tells_are_named(settings: dict[str, Any], named: str) -> None:
    assert beyond(**settings) == [named]
    assert not beyond(acceptance="rank", rank=16)


def test_what_the_checkpoint_suggests_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud().processor.generation, "repetition_penalty", 1.1)
    assert beyond() == ["decoding.repetition_penalty"]
    assert not beyond(repetition_penalty=1.0)


def test_a_near_tie_needs_two_tokens_to_be_known() -> None:
    logits = torch.zeros(1, PADDED)
    logits[0, [3, 4]] = torch.tensor([5.0, 5.0 - TIE / 2])
    rules = VllmRules(GREEDY, frozenset(), VOCAB)
    assert rules.verdict((), _reply(logits, (), 2)) == Verdict(0, 3, (), 1)
    assert rules.verdict((), _reply(logits, (), 1)) == Verdict(0, 3, (), None)
    logits[0, 4] = 5.0 - 2 * TIE
    assert rules.verdict((), _reply(logits, (), 2)) == Verdict(0, 3, (), 0)
