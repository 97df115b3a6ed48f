"""All positions of a block in one call: the scores are those of the library's processors, row by row."""

from __future__ import annotations

import random

import torch
from transformers import (
    LogitsProcessorList,
    MinNewTokensLengthLogitsProcessor,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
)

from specdec_cli.config.schema import ScoringConfig
from specdec_cli.decoding.scores import LogitsPipeline
from specdec_cli.models.processor import Prompt
from specdec_cli.models.session import Session
from tests.table import random_table


def _library(scoring: ScoringConfig, prompt: list[int], eos: list[int]) -> LogitsProcessorList:
    found = LogitsProcessorList()
    if scoring.repetition_penalty != 1.0:
        found.append(RepetitionPenaltyLogitsProcessor(scoring.repetition_penalty))
    if scoring.no_repeat_ngram:
        found.append(NoRepeatNGramLogitsProcessor(scoring.no_repeat_ngram))
    if scoring.min_new_tokens:
        found.append(MinNewTokensLengthLogitsProcessor(len(prompt), scoring.min_new_tokens, eos))
    return found


def _pipeline(scoring: ScoringConfig, prompt: list[int], eos: list[int]) -> LogitsPipeline:
    model = random_table(0)
    model.processor.eos_ids = tuple(eos)
    return LogitsPipeline(scoring, Session(model, Prompt(tuple(prompt), {}), 9))


def test_a_block_gets_the_scores_of_its_rows() -> None:
    rng, active = random.Random(0), 0
    for number in range(1500):
        vocab = rng.choice((3, 6, 20))
        prompt = [rng.randrange(vocab) for _ in range(rng.randint(1, 12))]
        text = [rng.randrange(vocab) for _ in range(rng.randint(0, 14))]
        rows = rng.randint(1, len(text) + 1)
        scoring = ScoringConfig(
            min_new_tokens=rng.choice((0, 1, len(text) or 1, 9, 30)),
            repetition_penalty=rng.choice((1.0, 1.3, 0.7)),
            no_repeat_ngram=rng.choice((0, 1, 2, 3, 5, 20)),
        )
        eos = [0, 2]
        logits = torch.randn(rows, vocab, generator=torch.Generator().manual_seed(number)) * 4
        logits[:, rng.randrange(vocab)] = -torch.inf
        library = _library(scoring, prompt, eos)
        wanted = logits.clone()
        for row in range(rows):
            history = torch.tensor([prompt + text[: len(text) - rows + 1 + row]])
            wanted[row] = library(history, logits[row : row + 1].clone())[0]
        given = logits.clone()
        found = _pipeline(scoring, prompt, eos)(text, given)
        assert torch.equal(found, wanted), number
        assert torch.equal(given, logits), "the raw logits are the session's"
        active += not torch.equal(found, logits)
    assert active > 1000


def test_without_settings_the_scores_are_the_logits() -> None:
    logits = torch.randn(3, 5)
    assert _pipeline(ScoringConfig(), [0], [1])([1, 2, 3], logits) is logits
