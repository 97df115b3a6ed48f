"""The rules, applied to a server's few likeliest tokens, say what they say with the whole distributions."""

import json
import random
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from specdec_cli.cloud.connection import Traffic
from specdec_cli.cloud.vllm import VllmVerifier
from specdec_cli.cloud.vllm_protocol import GenerateRequest, Scored, read_answer
from specdec_cli.config.decoding_schema import AcceptanceRules
from specdec_cli.decoding.accept import accept_block
from specdec_cli.decoding.block import Draft
from specdec_cli.decoding.remote import RemoteClip
from specdec_cli.decoding.rows import read
from specdec_cli.types import Candidates, ModelWork
from tests.cloud.stand_in import told

VOCAB, PADDED = 60, 70  # ids that may be generated, and rows that the server scores
SYNONYMS = {id_: id_ // 3 for id_ in range(VOCAB)}


class Answering:
    """Requests about a clip, to a server that gives `logits` [m + 1, rows] at the tokens of a draft and after it."""

    def __init__(
        self, logits: torch.Tensor, rule: Any = "greedy", banned: tuple[int, ...] = (), sound: Any = None
    ) -> None:
        decoding = SimpleNamespace(max_new_tokens=99, defers=False, rules=AcceptanceRules(rule=rule))
        config: Any = SimpleNamespace(decoding=decoding)
        prompt: Any = None
        self._rows, self.work, self.asked = logits, ModelWork(), list[tuple[int, int]]()
        self.clip = RemoteClip(lambda: prompt, config, VOCAB, (), synonyms=SYNONYMS, grounding=sound)
        self.call = SimpleNamespace(traffic=Traffic(), within_deadline=nullcontext)
        self.server: Any = SimpleNamespace(processor=SimpleNamespace(banned_ids=banned), vocab_size=VOCAB)

    def scored(self, ids: tuple[int, ...], drafted: int, tokens: int, listed: int, drawing: Any = None) -> Scored:
        *rows, after = self._rows[len(ids) - drafted : len(ids) + 1]
        self.asked.append((drafted, listed))
        banned, drafts = self.server.processor.banned_ids, ids[len(ids) - drafted :]
        request = GenerateRequest(ids, len(ids), drafted, tokens, VOCAB, banned, listed, drawing)
        return _read(
            request, told(after, listed), [told(row, listed, id_) for row, id_ in zip(rows, drafts, strict=True)]
        )


def answered(*given: Any) -> VllmVerifier:
    """A verifier of a clip at such a server."""
    requests: Any = Answering(*given)
    return VllmVerifier(requests)


def _read(request: GenerateRequest, generated: dict[str, Any], *prompt: Any, count: int = 1) -> Scored:
    """An answer whose generated tokens are the likeliest of those listed."""
    listed = [{"token_id": int(id_), **about} for id_, about in generated.items()]
    content = [{**listed[0], "top_logprobs": listed}] * count
    choices = [{"logprobs": {"content": content}}]
    answer = {"usage": {"prompt_tokens": request.length}, "choices": choices, "prompt_logprobs": (*prompt, None)[0]}
    return read_answer(json.dumps(answer).encode(), request)


@pytest.mark.parametrize("rule", ["greedy", "class"])
def test_few_candidates_judge_like_whole_distributions(rule):
    rng, accepted = random.Random(rule), set[int]()
    generator = torch.Generator().manual_seed(rng.randrange(1000))
    for number in range(500):
        banned = tuple(rng.sample(range(VOCAB), rng.randint(0, 3)))
        logits = 2 * torch.randn(rng.randint(1, 6), PADDED, generator=generator)
        logits[:, banned] += 3.0  # they are likely
        forbidden = [*banned, *range(VOCAB, PADDED)]
        masked = logits.index_fill(1, torch.tensor(forbidden), -torch.inf)[:, :VOCAB]
        logits[:, VOCAB:] -= 9.0
        likely = masked.topk(1 + rng.choice((0, 0, 3)), dim=-1).indices
        draft = Draft(tuple(rng.choice(row) for row in likely[:-1].tolist()))
        rows = read(masked, ids=torch.tensor([*draft.ids, 0]))
        accepts = accept_block(AcceptanceRules(rule=rule), rule, rows[:-1], SYNONYMS)
        wanted = accepts, rows[accepts].id
        found = answered(logits, rule, banned).verify((), draft, 0)
        assert (found.accepted, found.token, *found.run_on) == wanted, number
        accepted.add(found.accepted)
    assert accepted == set(range(6))


class EveryThird:
    """A sound that contradicts a third of the tokens, which one depends on the text; another third are answers."""

    def kind(self, text: tuple[int, ...], token: int) -> int:
        return (token + len(text)) % 3

    def contradicts(self, text: tuple[int, ...], token: int) -> bool:
        return self.kind(text, token) == 0

    def banned(self, text: tuple[int, ...], likeliest: Candidates) -> set[int]:
        answered = any(self.kind(text, id_) == 1 and p >= 0.01 for id_, p in likeliest)
        return {id_ for id_, _ in likeliest if answered and self.contradicts(text, id_)}


def test_the_sound_judges_those_of_twenty_that_may_be_generated():
    """A position is asked for once more, without its draft, only if the sound contradicts its likeliest token."""
    rng, generator, sound = random.Random(9), torch.Generator().manual_seed(9), EveryThird()
    replaced, unanswered = 0, 0
    for number in range(300):
        banned = tuple(rng.sample(range(VOCAB), rng.randint(0, 9)))
        logits = rng.choice((1.0, 5.0)) * torch.randn(rng.randint(1, 6), PADDED, generator=generator)
        logits[:, banned] += 3.0
        logits[:, VOCAB:] -= 9.0
        forbidden, own, instead, doubtful = {*banned, *range(VOCAB, PADDED)}, list[int](), list[int | None](), 0
        for at, row in enumerate(logits):
            twenty = [id_ for id_ in row.argsort(descending=True)[:20].tolist() if id_ not in forbidden]
            ps = row.index_fill(0, torch.tensor(sorted(forbidden)), -torch.inf).softmax(-1)
            best, places = twenty[0], (0,) * at
            found = sound.banned(places, tuple((id_, float(ps[id_])) for id_ in twenty))
            own.append(next(id_ for id_ in twenty if id_ not in found))
            instead.append(best if best in found else None)
            doubtful += sound.contradicts(places, best)
            unanswered += sound.contradicts(places, best) and best not in found
        requests: Any = Answering(logits, "greedy", banned, sound)
        verdict = VllmVerifier(requests).verify((), Draft(tuple(own[:-1])), 0)
        assert (verdict.accepted, verdict.token) == (len(own) - 1, own[-1]), number
        assert verdict.instead == tuple(instead), number
        few = 2 + len(banned) if len(own) > 1 else 20
        again = doubtful if few < 20 else 0
        assert requests.asked == [(len(own) - 1, few), *[(0, 20)] * again], number
        replaced += sum(id_ is not None for id_ in instead)
    assert replaced > 200
    assert unanswered > 20


def test_of_equally_likely_tokens_the_lowest_id_wins_as_in_process():
    logits = torch.zeros(2, PADDED)
    logits[0, [11, 5, 40]] = 4.0
    logits[1, [9, 30]] = 4.0
    for drafted, wanted in ((5, (1, 9)), (11, (0, 5))):
        found = answered(logits).verify((), Draft((drafted,)), 0)
        assert (found.accepted, found.token) == wanted


def test_what_was_generated_after_a_banned_token_is_dropped():
    request = GenerateRequest((0, 0), 2, 0, 3, VOCAB, candidates=2)
    listed = {str(VOCAB + 2): {"logprob": -0.1}, "8": {"logprob": -1.0}}
    found = _read(request, listed, count=3)
    assert (found.generated, len(found.likely), found.forwards) == ((8,), 1, 3)
