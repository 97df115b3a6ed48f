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

from specdec_cli.decoding.build import gate_generator
from specdec_cli.decoding.options import DecodingOptions
from specdec_cli.decoding.verify import draws_at
from specdec_cli.models.family import PromptInputs
from specdec_cli.models.qwen_omni import QwenOmniThinker
from tests.laws.cases import Case
from tests.laws.lengths import Lengths

THRESHOLDS = {"entropy": 1.0, "margin": 0.3, "logprob": -1.0, "learned": 0.6, "random": 0.1}

OF_TOKENS = ("entropy", "margin", "logprob", "learned")


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
    of_gate = gate_generator(options, case.edge_inputs)
    stop_ids = {*edge.eos_ids, *cloud.eos_ids}
    lengths = None
    if options.k == "auto":
        assert options.cost_ratio is not None
        lengths = Lengths(options.cost_ratio, always=options.gate == "always")
    text: list[int] = []
    escalations = 0
    while True:
        most = options.k if lengths is None else lengths.most()
        size = min(most, options.max_new_tokens - len(text))
        drawn = None if of_gate is None else float(torch.rand((), generator=of_gate, dtype=torch.float64))
        draft, rows = [], []
        while len(draft) < size and not (draft and draft[-1] in stop_ids):
            row = scores_after(edge, case.edge_inputs, text + draft, vocab, options)
            rows.append(row)
            draft.append(_choose(row, options, generator))
            unsure = drawn < _threshold(options) if drawn is not None else _unsure(case, text, draft, rows)
            if unsure and options.stop_drafting and options.gate in OF_TOKENS:
                break
            if unsure and lengths is not None and lengths.enough(_probabilities(draft, rows)):
                break
        if unsure:
            escalations += 1
            draws = draws_at(options.seed, len(text))
            new = _verified(case, text, draft, rows, draws)
            if lengths is not None:
                lengths.verified(_probabilities(draft, rows), len(new) - 1)
            new += _run_on(case, [*text, *new], draws)
        else:
            new = draft
            if lengths is not None:
                lengths.kept(len(draft))
        for token in new:
            text.append(token)
            if token in stop_ids or len(text) >= options.max_new_tokens:
                return text, escalations


def _probabilities(draft: list[int], rows: list[torch.Tensor]) -> list[float]:
    return [float(torch.softmax(row, -1)[token]) for token, row in zip(draft, rows, strict=True)]


def _choose(row: torch.Tensor, options: DecodingOptions, generator: torch.Generator) -> int:
    if options.temperature > 0:
        return int(torch.multinomial(torch.softmax(row, -1), 1, generator=generator))
    return int(torch.argmax(row))


def _threshold(options: DecodingOptions) -> float:
    return THRESHOLDS.get(options.gate, 0.0) if options.threshold is None else options.threshold


def _unsure(case: Case, text: list[int], draft: list[int], rows: list[torch.Tensor]) -> bool:
    options = case.options
    threshold = _threshold(options)
    if options.gate == "always":
        return True
    if options.gate == "learned":
        chances = [_chance(case, text, draft, rows, t) for t in range(len(draft))]
        together = max(chances) if case.weights.combination == "largest" else 1 - math.prod(1 - p for p in chances)
        return together >= threshold
    for token, row in zip(draft, rows, strict=True):
        probabilities = torch.softmax(row, -1)
        if options.gate == "entropy" and _nats(probabilities) >= threshold:
            return True
        if options.gate == "margin":
            best, second = sorted(probabilities.tolist())[-1:-3:-1]
            if best - second <= threshold:
                return True
        if options.gate == "logprob" and math.log(max(float(probabilities[token]), 1e-45)) <= threshold:
            return True
    return False


def _nats(probabilities: torch.Tensor) -> float:
    return -sum(p * math.log(p) for p in probabilities.tolist() if p > 0)


def _chance(case: Case, text: list[int], draft: list[int], rows: list[torch.Tensor], t: int) -> float:
    """The learned gate's probability for one token, feature by feature as its table says."""
    probabilities = torch.softmax(rows[t], -1).tolist()
    best = sorted(range(len(probabilities)), key=lambda id_: -probabilities[id_])[:3]
    first, second, third = (probabilities[id_] for id_ in best)
    own = probabilities[draft[t]]
    entropy = [_nats(torch.softmax(row, -1)) for row in rows[: t + 1]]

    def log(value: float) -> float:
        return max(math.log(value), -7.0) if value > 0 else -7.0

    values = {
        "entropy": entropy[t],
        "log_entropy": log(entropy[t]),
        "margin": first - second,
        "logprob": log(own),
        "odds": log(second / first),
        "third": third,
        "place": math.log(1 + len(text) + t),
        "in_block": t,
        "before": max(entropy[:t], default=0.0),
        f"id={draft[t]}": 1.0,
        f"doubt={draft[t]}": 1.0 - own,
    }
    if second > 0:
        values[f"second={best[1]}"] = 1.0
    values |= {f"p={id_}": probabilities[id_] for id_ in best if id_ != draft[t]}
    weights = case.weights
    named = zip(weights.features, weights.weights, strict=True)
    logit = weights.bias + sum(weight * values.get(name, 0.0) for name, weight in named)
    return 1.0 / (1.0 + math.exp(-(weights.slope * logit + weights.offset)))


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


def _run_on(case: Case, text: list[int], generator: torch.Generator) -> list[int]:
    """What the cloud writes behind its own token."""
    options, more = case.options, list[int]()
    assert case.pair.cloud is not None
    assert case.pair.edge is not None
    assert options.run_on != "auto"
    ends = {*case.pair.edge.eos_ids, *case.pair.cloud.eos_ids}
    while (
        len(more) < options.run_on and [*text, *more][-1] not in ends and len(text) + len(more) < options.max_new_tokens
    ):
        row = scores_after(case.pair.cloud, case.cloud_inputs, [*text, *more], case.pair.vocab_size, options)
        more.append(_choose(row, options, generator))
    return more


def _passes(token: int, row: torch.Tensor, options: DecodingOptions) -> bool:
    probabilities = torch.softmax(row, -1)
    if options.rule == "greedy":
        return token == int(torch.argmax(row))
    if options.rule == "rank":
        return token in torch.topk(row, options.rank).indices.tolist()
    if options.rule == "prob":
        return float(probabilities[token]) >= options.prob
    floor = min(options.typical_epsilon, options.typical_delta * math.exp(-_nats(probabilities)))
    return float(probabilities[token]) > floor
