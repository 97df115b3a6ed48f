"""The rules, applied to a server's few likeliest tokens, say what they say with the whole distributions."""

from __future__ import annotations

import json
import random
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from specdec_cli.cloud.vllm_clip import TIE, VllmClip, judged
from specdec_cli.cloud.vllm_protocol import Allowed, GenerateRequest, Scored, read_answer
from specdec_cli.config import AcceptanceConfig
from specdec_cli.decoding.accept import Verdict, accept_block
from specdec_cli.decoding.block import Draft
from specdec_cli.types import ModelWork
from tests.cloud.stand_in import told

VOCAB, PADDED = 60, 70  # ids that may be generated, and rows that the server scores
PROMPT = (0,) * 7
SYNONYMS = {id_: id_ // 3 for id_ in range(VOCAB)}
GREEDY = AcceptanceConfig()


class Answered(VllmClip):
    """A clip at a server that gives `logits` [m + 1, rows] at the tokens of a draft and after it."""

    def __init__(self, logits: torch.Tensor, banned: tuple[int, ...] = ()) -> None:
        self._rows, self._allowed = logits, Allowed(VOCAB, frozenset(banned))
        self._server: Any = SimpleNamespace(name="x", prompt_ids=lambda *_: PROMPT)
        self._done, self._prompt, self._caller = ModelWork(prompt_tokens=len(PROMPT)), None, None  # type: ignore[assignment]

    def _sent(self, request: GenerateRequest, _text: int) -> Scored:
        *drafted, after = self._rows
        draft = request.ids[len(PROMPT) :]
        listed = [told(row, request.candidates, id_) for row, id_ in zip(drafted, draft, strict=True)]
        return _read(request, told(after, request.candidates), prompt_logprobs=[*[None] * len(PROMPT), *listed])

    def judged(self, draft: tuple[int, ...], rules: AcceptanceConfig = GREEDY) -> Verdict:
        least = rules.rank if rules.rule == "rank" else 1
        return judged(draft, self.scored(draft, len(draft), 1, least), rules, SYNONYMS)


def _read(request: GenerateRequest, *generated: dict[str, Any], **more: Any) -> Scored:
    """An answer whose generated tokens are the likeliest of those listed."""
    listed = [[{"token_id": int(id_), **about} for id_, about in each.items()] for each in generated]
    content = [{**each[0], "top_logprobs": each} for each in listed]
    answer = {"usage": {"prompt_tokens": request.length}, "choices": [{"logprobs": {"content": content}}], **more}
    return read_answer(json.dumps(answer).encode(), request)


@pytest.mark.parametrize("rule", ["greedy", "rank", "class"])
@pytest.mark.parametrize("pull", [0.0, 3.0])
def test_few_candidates_judge_like_whole_distributions(rule: Any, pull: float) -> None:
    """`pull` makes tokens likely that may not be generated."""
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
        found = Answered(logits, banned).judged(draft, rules)
        assert (found.accepted, found.token, *found.more) == wanted, number
        best = masked[: found.accepted + 1].topk(2).values
        assert found.near_ties in (None, int((best[:, 0] - best[:, 1] <= TIE).sum())), number
        accepted.add(found.accepted)
    assert accepted == set(range(6))


def test_of_equally_likely_tokens_the_lowest_id_wins_as_in_process() -> None:
    logits = torch.zeros(2, PADDED)
    logits[0, [11, 5, 40]] = 4.0
    logits[1, [9, 30]] = 4.0
    assert Answered(logits).judged((5,)) == Verdict(1, 9, (), 2)
    assert Answered(logits).judged((11,)) == Verdict(0, 5, (), 1)


def test_what_was_generated_after_a_banned_token_is_dropped() -> None:
    pairs = ((3, 4), (VOCAB + 2, 8), (5, 6))
    listed = [{str(id_): {"logprob": -0.1 - at, "rank": 1 + at} for at, id_ in enumerate(ids)} for ids in pairs]
    found = _read(GenerateRequest((0, 0), 2, 0, 3, Allowed(VOCAB), 2), *listed)
    assert judged((), found, GREEDY) == Verdict(0, 3, (8,), 0)


def test_a_drafted_token_whose_rank_is_not_listed_is_not_kept() -> None:
    logits = torch.arange(PADDED, 0, -1.0).repeat(2, 1)  # the likeliest is id 0, and so on
    clip, rules = Answered(logits, tuple(range(5, 15))), AcceptanceConfig(rule="rank", rank=12)
    assert clip.judged((21,), rules) == Verdict(0, 0, (), 0)  # the 12th that may be generated, but the 22nd of all
    assert clip.judged((19,), rules) == Verdict(1, 0, (), 0)


def test_a_near_tie_needs_two_tokens_to_be_listed() -> None:
    logits = torch.zeros(1, PADDED)
    logits[0, [3, 4]] = torch.tensor([5.0, 5.0 - TIE / 2])
    assert Answered(logits).judged(()) == Verdict(0, 3, (), 1)
    assert Answered(logits, (4,)).judged(()) == Verdict(0, 3, (), None)
    logits[0, 4] = 5.0 - 2 * TIE
    assert Answered(logits).judged(()) == Verdict(0, 3, (), 0)
