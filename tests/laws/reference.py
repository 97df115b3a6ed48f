"""The algorithm once more, as plainly as it can be written: no cache, no sessions, everything from scratch.

Every distribution comes from a full forward of the whole thinker over prompt and text, through transformers' own
entry point with an attention mask. It is slow and shares no decoding code with the product.
"""

from __future__ import annotations

import math

import torch
from transformers import (
    MinNewTokensLengthLogitsProcessor,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from specdec_cli.decoding.options import DecodingOptions
from specdec_cli.models.family import PromptInputs
from specdec_cli.models.qwen_omni import QwenOmniThinker
from tests.laws.cases import Case

THRESHOLDS = {"entropy": 1.0, "margin": 0.3, "logprob": -1.0}


def scores_after(
    model: QwenOmniThinker, prompt: PromptInputs, text: list[int], vocab_size: int, options: DecodingOptions
) -> torch.Tensor:
    """Processed scores [vocab] of the token behind prompt + text."""
    ids = torch.tensor([[*prompt.ids, *text]])
    with torch.no_grad():
        output = model.module(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            input_features=prompt.features.values[None],
            feature_attention_mask=torch.ones(1, prompt.features.frames, dtype=torch.long),
            use_cache=False,
        )
    scores = output.logits[:, -1, :vocab_size].float()
    for banned in model.placeholder_ids:
        if banned < vocab_size:
            scores[:, banned] = -math.inf
    if options.repetition_penalty != 1.0:
        scores = RepetitionPenaltyLogitsProcessor(options.repetition_penalty)(ids, scores)
    if options.no_repeat_ngram:
        scores = NoRepeatNGramLogitsProcessor(options.no_repeat_ngram)(ids, scores)
    if options.min_new_tokens:
        eos = list(model.eos_ids)
        scores = MinNewTokensLengthLogitsProcessor(len(prompt.ids), options.min_new_tokens, eos)(ids, scores)
    if options.temperature > 0:
        scores = TemperatureLogitsWarper(options.temperature)(ids, scores)
        if options.top_k:
            scores = TopKLogitsWarper(options.top_k)(ids, scores)
        if options.top_p and options.top_p < 1:
            scores = TopPLogitsWarper(options.top_p)(ids, scores)
    return scores[0]


def reference_text(case: Case) -> tuple[list[int], int]:
    """(token ids, number of escalated blocks) of a hybrid run without caches."""
    options, vocab = case.options, case.pair.vocab_size
    edge, cloud = case.pair.edge, case.pair.cloud
    assert edge is not None
    assert cloud is not None
    generator = torch.Generator().manual_seed(options.seed)
    stop_ids = {*edge.eos_ids, *cloud.eos_ids}
    text: list[int] = []
    escalations = 0
    while True:
        size = min(options.k, options.max_new_tokens - len(text))
        draft, rows = [], []
        while len(draft) < size and not (draft and draft[-1] in stop_ids):
            row = scores_after(edge, case.edge_inputs, text + draft, vocab, options)
            rows.append(row)
            draft.append(_choose(row, options, generator))
        if _unsure(draft, rows, options):
            escalations += 1
            new = _verified(case, text, draft, rows, generator)
        else:
            new = draft
        for token in new:
            text.append(token)
            if token in stop_ids or len(text) >= options.max_new_tokens:
                return text, escalations


def _choose(row: torch.Tensor, options: DecodingOptions, generator: torch.Generator) -> int:
    if options.temperature > 0:
        return int(torch.multinomial(torch.softmax(row, -1), 1, generator=generator))
    return int(torch.argmax(row))


def _unsure(draft: list[int], rows: list[torch.Tensor], options: DecodingOptions) -> bool:
    threshold = THRESHOLDS.get(options.gate, 0.0) if options.threshold is None else options.threshold
    for token, row in zip(draft, rows, strict=True):
        probabilities = torch.softmax(row, -1)
        if options.gate == "always":
            return True
        if options.gate == "entropy":
            nats = -sum(p * math.log(p) for p in probabilities.tolist() if p > 0)
            if nats >= threshold:
                return True
        if options.gate == "margin":
            best, second = sorted(probabilities.tolist())[-1:-3:-1]
            if best - second <= threshold:
                return True
        if options.gate == "logprob" and math.log(max(float(probabilities[token]), 1e-45)) <= threshold:
            return True
    return False


def _verified(
    case: Case, text: list[int], draft: list[int], rows: list[torch.Tensor], generator: torch.Generator
) -> list[int]:
    options = case.options
    assert case.pair.cloud is not None
    targets = [
        scores_after(case.pair.cloud, case.cloud_inputs, text + draft[:i], case.pair.vocab_size, options)
        for i in range(len(draft) + 1)
    ]
    if options.rule == "sampling":
        for i, token in enumerate(draft):
            p, q = torch.softmax(targets[i], -1), torch.softmax(rows[i], -1)
            if float(torch.rand((), generator=generator)) < float(p[token] / q[token]):
                continue
            rest = torch.clamp(p - q, min=0)
            return [*draft[:i], int(torch.multinomial(rest / rest.sum(), 1, generator=generator))]
        return [*draft, _choose(targets[-1], options, generator)]
    for i, token in enumerate(draft):
        if not _passes(token, targets[i], options):
            return [*draft[:i], _choose(targets[i], options, generator)]
    return [*draft, _choose(targets[-1], options, generator)]


def _passes(token: int, row: torch.Tensor, options: DecodingOptions) -> bool:
    probabilities = torch.softmax(row, -1)
    if options.rule == "greedy":
        return token == int(torch.argmax(row))
    if options.rule == "rank":
        return token in torch.topk(row, options.rank).indices.tolist()
    if options.rule == "prob":
        return float(probabilities[token]) >= options.prob
    nats = -sum(p * math.log(p) for p in probabilities.tolist() if p > 0)
    return float(probabilities[token]) > min(options.typical_epsilon, options.typical_delta * math.exp(-nats))
