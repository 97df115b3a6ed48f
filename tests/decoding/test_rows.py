"""What the host reads of rows, against plain PyTorch, at vocabularies that are searched whole and in strips."""

import math

import pytest
import torch
from transformers import NoRepeatNGramLogitsProcessor, RepetitionPenaltyLogitsProcessor

from specdec_cli.config.decoding_schema import ScoringConfig
from specdec_cli.decoding.rows import CANDIDATES, Groups, TokenEvidence, most_likely, ranked, read
from specdec_cli.decoding.scores import LogitsPipeline
from specdec_cli.errors import DecodingError
from specdec_cli.models.processor import Prompt
from specdec_cli.models.session import Session
from tests.table import random_table

SIZES = (2, 5, 300, 8192, 8193, 8320, 20_001)


def _scores(size: int, rows: int = 4) -> torch.Tensor:
    """Rows with impossible tokens, of which the last may be the best."""
    generator = torch.Generator().manual_seed(size)
    scores = 3 * torch.randn(rows, size + 7, generator=generator)[:, :size]  # a part of longer rows, as logits are
    scores[:, torch.randint(size, (max(size // 9, 1),), generator=generator)] = -math.inf
    scores[0, -1] = 40.0
    return scores


@pytest.mark.parametrize("size", SIZES)
def test_the_best_are_those_of_a_whole_search(size):
    scores, count = _scores(size), min(3, size)
    assert most_likely(scores).tolist() == scores.argmax(dim=-1).tolist() == [row.id for row in read(scores)]
    first, values, ids = ranked(scores, count)
    assert torch.equal(first, scores.argmax(dim=-1))
    assert torch.equal(values, scores.topk(count).values)
    assert torch.equal(scores.gather(1, ids), values)
    assert all(len(set(row)) == count for row in ids.tolist())


@pytest.mark.parametrize("size", SIZES)
def test_of_equal_tokens_the_first_is_chosen_as_by_generate(size):
    for places in ([size - 1, 0], [size - 1, size // 2], [size // 2, size // 3, size - 1]):
        scores = torch.zeros(1, size).index_fill(1, torch.tensor(places), 1.0)
        assert most_likely(scores).tolist() == [min(places)]
        assert [row.id for row in read(torch.zeros(2, size))] == [0, 0]
        assert [row.id for row in read(scores)] == ranked(scores, 2)[0].tolist() == [min(places)]


@pytest.mark.parametrize("size", SIZES)
def test_evidence_is_that_of_the_distribution(size):
    scores = _scores(size)
    groups = {at: at % 3 for at in range(0, size, 5)}
    wholes = scores.double().softmax(dim=-1)
    rows = read(scores, CANDIDATES, doubt=True, groups=Groups.of(groups, size))
    for row, p in zip(map(TokenEvidence.of, rows), wholes, strict=True):
        assert row.entropy == pytest.approx(float(torch.special.entr(p).sum()), abs=1e-4)
        assert row.logprob == pytest.approx(float(p.max().log()), abs=1e-5)
        top = p.topk(min(CANDIDATES, size)).values.tolist()
        assert [chance for _, chance in row.candidates] == pytest.approx([q for q in top if q > 1e-30], abs=1e-5)
        assert row.margin == pytest.approx(top[0] - top[1], abs=1e-5)
        summed = [sum(float(p[id_]) for id_ in groups if groups[id_] == group) for group in range(3)]
        between = torch.special.entr(torch.tensor([*summed, max(1 - sum(summed), 0.0)])).sum()
        assert row.class_entropy == pytest.approx(float(between), abs=1e-4)
    assert read(scores.split(1), 3, spread=True, doubt=True) == read(scores, 3, spread=True, doubt=True)
    without = zip(read(scores, 3), read(scores, 3, spread=True, doubt=True), strict=True)
    assert all((a.id, a.gap) == (b.id, b.gap) and a.logprob == pytest.approx(b.logprob, abs=1e-5) for a, b in without)
    impossible = scores.isinf().nonzero()
    if len(impossible):
        at, id_ = impossible[0].tolist()
        (row,) = read(scores[at : at + 1], 1, ids=torch.tensor([id_]))
        assert (row.token, row.logprob) == (id_, -math.inf)


def test_a_token_has_exactly_the_probability_that_the_candidates_give_it():
    """Rule `rank` compares the two."""
    scores = 0.5 * torch.randn(400, 300, generator=torch.Generator().manual_seed(0))
    third = torch.tensor([row.candidates[2][0] for row in read(scores, 3)])
    for row in read(scores, 3, ids=third):
        assert row.logprob is not None
        assert math.exp(row.logprob) == row.candidates[2][1]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("size", [300, 20_001])
def test_a_row_that_is_not_finite_is_refused_by_name_when_it_is_used(bad, size):
    scores = _scores(size)
    scores[1, size // 2] = bad
    for wanted in ({}, {"spread": True}, {"doubt": True}):
        fine, broken, *others = read(scores, **wanted)
        for row in (fine, *others):
            row.require_finite("it")
        with pytest.raises(DecodingError, match="the logits of it are not finite"):
            broken.require_finite("it")
    with pytest.raises(DecodingError, match="not finite"):
        read(torch.full((1, size), -math.inf))[0].require_finite("it")


def test_a_spread_of_many_scores_is_nearly_that_of_all():
    scores = _scores(20_001)
    for row, scored in zip(read(scores, spread=True), scores, strict=True):
        assert row.spread == pytest.approx(float(scored[scored.isfinite()].std()), rel=0.05)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_repeats_are_ruled_out_as_by_the_library(n):
    generator = torch.Generator().manual_seed(n)
    for _ in range(20):
        prompt, *text = torch.randint(2, 5, (9,), generator=generator).tolist()
        session = Session(random_table(0), Prompt((0, prompt), {}), 12)
        pipeline = LogitsPipeline(ScoringConfig(no_repeat_ngram=n), session)
        for end in (0, 3, 2, len(text)):  # texts that grow and shrink
            rows = min(end, 2) + 1
            logits = torch.randn(rows, 5, generator=generator)
            found = pipeline(text[:end], logits)
            for row in range(rows):
                history = torch.tensor([[0, prompt, *text[: end - rows + 1 + row]]])
                assert torch.equal(found[row], NoRepeatNGramLogitsProcessor(n)(history, logits[row][None])[0])


@pytest.mark.parametrize("prompt", [(0, 3), (7, 9)])  # 7 and 9: tokens without a score
def test_repeats_are_penalised_as_by_the_library(prompt):
    penalty, text = 1.3, [2, 4, 2]
    session = Session(random_table(0), Prompt((0, 3), {}), 12)
    session.prompt = Prompt(prompt, {})
    logits = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    found = LogitsPipeline(ScoringConfig(repetition_penalty=penalty), session)(text, logits)
    for row in range(3):
        history = torch.tensor([[id_ for id_ in (*prompt, *text[: 1 + row]) if id_ < 5]])
        assert torch.equal(found[row], RepetitionPenaltyLogitsProcessor(penalty)(history, logits[row][None])[0])
