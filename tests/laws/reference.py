"""The algorithm once more, as plainly as it can be written: no cache, no sessions, everything from scratch.

Every score comes from a forward of the whole module over prompt and text, through its own entry point with an
attention mask. Nothing of `specdec_cli.decoding` is used but the seeds of its draws and the count of sentences; texts
are read by `specdec_cli.reading` and by the lexicon.

Of every decision the reference also knows whether it was a close call: whether scores that differ by what rounding
explains (see `tolerance`) would decide otherwise. Only there may the product's rounds part from the reference's.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import torch
from transformers import (
    MinNewTokensLengthLogitsProcessor,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from specdec_cli.config.decoding_schema import DecodingConfig
from specdec_cli.decoding.block import Block
from specdec_cli.decoding.pair import gate_generator
from specdec_cli.decoding.stop import count_sentences
from specdec_cli.decoding.verify import draws_at
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.processor import Prompt
from specdec_cli.reading import description_end, fault_of
from specdec_cli.types import Finished, FinishReason, Reason, Source
from tests.laws.cases import CLASSES, SYNONYMS, Case, on
from tests.laws.lengths import SOLO_BLOCK, Lengths
from tests.laws.sound import Sound
from tests.laws.tolerance import LawBroken, allowed, assert_figures, figures

THRESHOLDS = {"entropy": 1.0, "margin": 0.3, "logprob": -1.0, "class-entropy": 0.7, "random": 0.1}
TOKEN_GATES = ("entropy", "margin", "logprob", "class-entropy")
DEFERRED = 64


class Oracle:
    """Cache-free scores of one clip on one model."""

    def __init__(
        self, model: AudioLM, clip: Prompt, vocab_size: int, decoding: DecodingConfig, sound: Sound | None = None
    ) -> None:
        self._model, self._clip, self._vocab_size, self._decoding = model, clip, vocab_size, decoding
        self._sound, self._banned = sound, dict[tuple[int, ...], tuple[int | None, bool]]()
        self._logits: dict[tuple[int, ...], torch.Tensor] = {}
        self._rows: dict[tuple[int, ...], torch.Tensor] = {}
        generation = model.processor.generation
        self._penalty = _first(decoding.repetition_penalty, generation.repetition_penalty, 1.0)
        self._no_repeat = int(_first(decoding.no_repeat_ngram, generation.no_repeat_ngram_size, 0))
        self._least = int(_first(decoding.min_new_tokens, generation.min_new_tokens, 0))

    def read(self, text: Sequence[int]) -> None:
        """One forward over prompt and text, which gives the logits after every prefix of the text."""
        if tuple(text) in self._logits:
            return
        given = {"input_ids": torch.tensor([[*self._clip.ids, *text]]), **self._clip.audio}
        given["attention_mask"] = torch.ones_like(given["input_ids"])
        with torch.no_grad():
            output = self._model.module(**on(self._model.device, given), use_cache=False)
        logits = output.logits[0, len(self._clip.ids) - 1 :].float().cpu()
        for length, row in enumerate(logits):
            self._logits.setdefault(tuple(text[:length]), row)

    def __call__(self, text: Sequence[int]) -> torch.Tensor:
        """Processed scores [vocab] after `text`."""
        prefix = tuple(text)
        if prefix not in self._rows:
            if prefix not in self._logits:
                self.read(prefix)
            self._rows[prefix] = self._processed(prefix, self._logits[prefix])
        return self._rows[prefix]

    def fuzzy(self, text: Sequence[int]) -> bool:
        """Whether rounding may decide which tokens top-k or top-p leave in the row after `text`."""
        decoding = self._decoding
        if decoding.temperature == 0 or not (decoding.top_k or decoding.top_p):
            return False
        self(text)
        whole = self._processed(tuple(text), self._logits[tuple(text)], warped=False) / decoding.temperature
        off, ordered = allowed(whole), whole.sort(descending=True).values
        cut = min(decoding.top_k or len(ordered), len(ordered))
        if cut < len(ordered) and float(ordered[cut - 1] - ordered[cut]) <= off:
            return True
        kept = ordered[:cut].softmax(-1).cumsum(-1)
        return bool(decoding.top_p) and bool(((kept - float(decoding.top_p or 1)).abs() <= off).any())

    def banned(self, text: Sequence[int]) -> tuple[int | None, bool]:
        """The likeliest token after `text`, if the sound bans it, and whether its bans there are a close call."""
        self(text)
        return self._banned.get(tuple(text), (None, False))

    def _processed(self, text: tuple[int, ...], logits: torch.Tensor, *, warped: bool = True) -> torch.Tensor:
        decoding = self._decoding
        scores = logits[None, : self._vocab_size].clone()
        for banned in self._model.processor.banned_ids:
            if banned < self._vocab_size:
                scores[:, banned] = -math.inf
        ids = torch.tensor([[*self._clip.ids, *text]])
        if self._penalty != 1.0:
            scores = RepetitionPenaltyLogitsProcessor(float(self._penalty))(ids, scores)
        if self._no_repeat:
            scores = NoRepeatNGramLogitsProcessor(self._no_repeat)(ids, scores)
        if self._least:
            eos = list(self._model.processor.eos_ids)
            scores = MinNewTokensLengthLogitsProcessor(len(self._clip.ids), self._least, eos)(ids, scores)
        if self._sound is not None:
            best = scores[0].topk(2)
            banned, unclear = self._sound.bans(text, scores[0])
            instead = int(best.indices[0]) if int(best.indices[0]) in banned else None
            tied = bool(banned) and float(best.values[0] - best.values[1]) <= allowed(scores[0])
            self._banned[text] = instead, unclear or tied
            scores[0, list(banned)] = -math.inf
        if decoding.temperature > 0 and warped:
            scores = TemperatureLogitsWarper(decoding.temperature)(ids, scores)
            if decoding.top_k:
                scores = TopKLogitsWarper(decoding.top_k)(ids, scores)
            if decoding.top_p and decoding.top_p < 1:
                scores = TopPLogitsWarper(decoding.top_p)(ids, scores)
        return scores[0]


def edge_oracle(case: Case) -> Oracle:
    """Cache-free scores of the drafting model."""
    return Oracle(case.edge, case.edge_prompt, case.pair.vocab_size, case.config.decoding, case.sound)


def cloud_oracle(case: Case) -> Oracle:
    """Cache-free scores of the verifying model."""
    return Oracle(case.cloud, case.cloud_prompt, case.pair.vocab_size, case.config.decoding, case.sound)


@dataclass
class Expected:
    """A round of the reference; `close` names its close calls, and `rows` are those of the drafted tokens."""

    draft_ids: list[int] = field(default_factory=list)
    rows: list[torch.Tensor] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)  # the gate's figure of each token
    reason: Reason | None = None
    waking: bool = False
    accepted: int = 0
    committed: list[int] = field(default_factory=list)
    instead: list[int | None] = field(default_factory=list)  # the likeliest tokens in their places that were banned
    source: list[Source] = field(default_factory=list)
    finish: FinishReason | None = None
    close: list[str] = field(default_factory=list)


class Reference:
    """One clip in any mode, round by round. A cloud that fails is not part of it."""

    def __init__(self, case: Case) -> None:
        self._case, self._config = case, case.config
        self._decoding = decoding = self._config.decoding
        self.text: list[int] = []
        self._cloud = cloud_oracle(case)
        self._drafter = self._cloud if decoding.mode == "cloud" else edge_oracle(case)
        self._verifies = decoding.mode in ("hybrid", "lossless")
        self._gate = {"hybrid": self._config.gate.name, "lossless": "always"}.get(decoding.mode, "never")
        self._generator = torch.Generator().manual_seed(decoding.seed)
        self._of_gate = gate_generator(self._config, case.edge_prompt)
        own = case.edge if decoding.mode == "edge" else case.cloud
        self._stop_ids = set(own.processor.eos_ids)
        # each model ends at its own ids: the edge where its draft is kept, the cloud where it has its say
        self._draft_ends = set(case.edge.processor.eos_ids) if decoding.mode == "hybrid" else self._stop_ids
        self._lengths: Lengths | None = None
        not_deferred = decoding.mode == "lossless" and decoding.sampling
        if self._verifies and (decoding.k == "auto" or (decoding.k == "whole" and not_deferred)):
            self._lengths = Lengths(decoding.cost_ratio, lossless=decoding.mode == "lossless")
        self._loop_was_verified, self._loops, self._period = False, 0, decoding.loop_period
        self._awake = decoding.cloud_prefill in ("early", "overlap")
        self._drafted = 0
        self._now = Expected()

    def read(self, text: Sequence[int]) -> None:
        """One forward of each model over a text: what follows its prefixes needs no more of them."""
        for oracle in {self._drafter, self._cloud} if self._verifies else {self._drafter}:
            oracle.read(text)

    def round(self, hint: Sequence[int] = ()) -> Expected:
        """The next round.

        Args:
            hint: what the product drafted in it: one forward over all of it saves one for every token.
        """
        self._now = now = Expected()
        self._drafter.read([*self.text, *hint[:-1]])
        self._draft()
        new: list[int] = list(now.draft_ids)
        now.accepted = len(new)
        now.source = ["cloud" if self._decoding.mode == "cloud" else "edge"] * len(new)
        verified = self._verifies and (now.reason is not None or not now.draft_ids)
        if verified:
            new = self._verify()
            self._awake = True
        else:
            now.reason = None  # nobody was asked
        if self._lengths is not None and verified:
            self._lengths.verified(len(now.draft_ids), now.accepted)
        self._commit(new, verified)
        return now

    # --- drafting ---

    def _draft(self) -> None:
        now, decoding = self._now, self._decoding
        whole = decoding.k == "whole" and (
            decoding.mode == "hybrid" or (decoding.mode == "lossless" and not decoding.sampling)
        )
        if whole:
            most = min(DEFERRED, max(SOLO_BLOCK, DEFERRED + 4 * len(self.text) - self._drafted))
        elif self._lengths is not None:
            most = self._lengths.most()
        else:
            most = decoding.k if isinstance(decoding.k, int) else SOLO_BLOCK
        size = min(most if self._verifies else max(most, 1), decoding.max_new_tokens - len(self.text))
        self._block(size, whole=whole)
        if self._see_loop(size, whole=whole):
            return  # a way out of a loop is not verified
        if now.reason is None and now.draft_ids and decoding.mode == "hybrid" and decoding.closing == "on":
            before, after = (self._fault(ids) for ids in (self.text, [*self.text, *now.draft_ids]))
            now.reason = after if before is None else None

    def _fault(self, ids: Sequence[int]) -> Reason | None:
        return fault_of(self._case.pair.processor.text(ids), self._config.prompt.language)

    def _see_loop(self, size: int, *, whole: bool) -> bool:
        """Whether the draft is a way out of a loop, in place of the one that looped."""
        now, decoding = self._now, self._decoding
        if self._loop_end([*self.text, *now.draft_ids], len(self.text)) is None:
            return False
        self._widen()
        if decoding.mode in ("hybrid", "edge") and (self._loop_was_verified or not self._verifies):
            now.draft_ids, now.rows, now.scores, now.reason = [], [], [], None
            self._block(min(size, SOLO_BLOCK) if whole else size, way_out=True)
            now.reason = None
            return True
        if self._gate != "always":
            now.reason = "loop"
        return False

    def _block(self, size: int, *, way_out: bool = False, whole: bool = False) -> None:
        now, gate = self._now, self._gate
        stops = self._config.gate.stop_drafting and gate in TOKEN_GATES and not whole
        now.waking = whole and not self._awake and self._decoding.mode == "hybrid"
        drawn = None
        if self._of_gate is not None:
            drawn = float(torch.rand((), generator=self._of_gate, dtype=torch.float64))
        while len(now.draft_ids) < size and not (now.draft_ids and now.draft_ids[-1] in self._draft_ends):
            before = [*self.text, *now.draft_ids]
            row = self._drafter(before)
            self._call("top-k or top-p of a draft", self._drafter.fuzzy(before))
            self._call("sound", self._drafter.banned(before)[1])
            if way_out:
                floor = row.topk(min(10, len(row))).values[-1]
                below = row[row < floor]
                self._call("way out", len(below) > 0 and float(floor - below.max()) <= allowed(row))
                row = row.masked_fill(row < floor, -math.inf)
            now.rows.append(row)
            now.draft_ids.append(self._choose(row, "draft", self._generator, draws=way_out))
            self._judge(drawn)
            if stops and now.reason is not None:
                break
            if whole:
                if self._ends([*self.text, *now.draft_ids], self._draft_ends) is not None:
                    break
                continue
            if self._lengths is not None and not way_out and (now.reason is not None or gate == "always"):
                enough, unclear = self._lengths.enough(self._probabilities())
                self._call("enough", unclear)
                if enough:
                    break
        self._drafted += len(now.draft_ids)
        if gate == "always":
            now.reason = "always"

    def _judge(self, drawn: float | None) -> None:
        """The gate on the token that was drafted last."""
        now, gate, row, token = self._now, self._gate, self._now.rows[-1], self._now.draft_ids[-1]
        entropy, margin, logprob = figures(row, token)
        score = {"margin": margin, "logprob": logprob}.get(gate, entropy)
        off = {"margin": 1, "logprob": 2}.get(gate, 2 * max(1.0, entropy)) * allowed(row) + 1e-5
        if drawn is not None:
            score, off = drawn, 0.0
        elif gate == "class-entropy":
            score = _class_entropy(row)
        now.scores.append(score)
        if gate in ("always", "never"):
            return
        given = self._config.gate.threshold
        if now.waking and self._config.gate.wake is not None:
            given = self._config.gate.wake
        threshold = THRESHOLDS[gate] if given is None else given
        self._call(gate, off > 0 and abs(score - threshold) <= off)
        if gate == "random":
            unsure = score < threshold
        else:
            unsure = score <= threshold if gate in ("margin", "logprob") else score >= threshold
        if unsure:
            now.reason = gate

    def _probabilities(self) -> list[float]:
        return [float(row.softmax(-1)[id_]) for id_, row in zip(self._now.draft_ids, self._now.rows, strict=True)]

    # --- verifying ---

    def _verify(self) -> list[int]:
        now, draft = self._now, self._now.draft_ids
        draws = draws_at(self._decoding.seed, len(self.text))
        now.accepted, token = self._accept(draws)
        new = [*draft[: now.accepted], token]
        own: Source = "bonus" if now.accepted == len(draft) else "corrected"
        now.source = ["accepted"] * now.accepted + [own if draft else "cloud"]
        most = 0 if draft else SOLO_BLOCK - 1
        most = min(most, self._decoding.max_new_tokens - len(self.text) - 1)
        while len(new) - now.accepted - 1 < most and new[-1] not in self._stop_ids:
            new.append(self._own([*self.text, *new], draws))
            now.source.append("cloud")
        return new

    def _accept(self, draws: torch.Generator) -> tuple[int, int]:
        """(accepted, the cloud's own token)."""
        draft, rule = self._now.draft_ids, self._config.acceptance_rule
        for at, token in enumerate(draft):
            before = [*self.text, *draft[:at]]
            row = self._cloud(before)
            self._call("top-k or top-p of a verification", self._cloud.fuzzy(before))
            self._call("sound", self._cloud.banned(before)[1])
            if rule == "sampling":
                p, q = row.softmax(-1), self._now.rows[at].softmax(-1)
                u, own = float(torch.rand((), generator=draws)), float(p[token])
                off = 2 * (allowed(row) + allowed(self._now.rows[at]))
                self._call("acceptance", abs(u * float(q[token]) - own) <= off * max(own, u * float(q[token])))
                if u < own / float(q[token]):
                    continue
                return at, self._drawn((p - q).clamp(min=0), p + q, off, "correction", draws)
            if not self._passes(token, row):
                return at, self._own(before, draws)
        return len(draft), self._own([*self.text, *draft], draws)

    def _passes(self, token: int, row: torch.Tensor) -> bool:
        rules, rule, off = self._config.decoding.rules, self._config.acceptance_rule, allowed(row)
        if rule in ("greedy", "class"):
            best = row.topk(2).values
            self._call("acceptance", float(best[0] - best[1]) <= off)
            likeliest = int(row.argmax())
            return token == likeliest or (rule == "class" and SYNONYMS.get(token, -1) == SYNONYMS.get(likeliest, -2))
        if rule == "rank":
            others = torch.cat((row[:token], row[token + 1 :]))
            surely, perhaps = int((others > row[token] + off).sum()), int((others >= row[token] - off).sum())
            self._call("acceptance", (surely < rules.rank) != (perhaps < rules.rank))
            return int((others > row[token]).sum()) < rules.rank and bool(row[token].isfinite())
        p, entropy = float(row.softmax(-1)[token]), figures(row, token)[0]
        if rule == "prob":
            self._call("acceptance", abs(p - rules.prob) <= off)
            return p >= rules.prob
        floor = min(0.09, 0.3 * math.exp(-entropy))
        self._call("acceptance", abs(p - floor) <= 3 * off * max(1.0, entropy))
        return p > floor

    def _own(self, text: Sequence[int], draws: torch.Generator) -> int:
        self._call("top-k or top-p of the cloud's own token", self._cloud.fuzzy(text))
        self._call("sound", self._cloud.banned(text)[1])
        return self._choose(self._cloud(text), "the cloud's own token", draws)

    # --- choosing and committing ---

    def _choose(self, row: torch.Tensor, what: str, generator: torch.Generator, *, draws: bool = False) -> int:
        if draws or self._decoding.temperature > 0:
            p = row.softmax(-1)
            return self._drawn(p, p, 2 * allowed(row), what, generator)
        best = row.topk(2).values
        self._call(what, float(best[0] - best[1]) <= allowed(row))
        return int(row.argmax())

    def _drawn(
        self, weights: torch.Tensor, mass: torch.Tensor, off: float, what: str, generator: torch.Generator
    ) -> int:
        """One token; `mass` times `off` is how far each weight may be from what it is."""
        again = torch.Generator()
        again.set_state(generator.get_state())
        token = int(torch.multinomial(weights, 1, generator=generator))
        # torch draws by a race: exponential variables over the weights
        clock = torch.empty_like(weights).exponential_(1, generator=again)
        assert token == int((weights / clock).argmax()), "torch draws in another way than it did"
        uncertain = mass * off
        slowest = (weights - uncertain)[token] / clock[token]
        fastest = ((weights + uncertain) / clock).index_fill(0, torch.tensor(token), 0.0).max()
        self._call(what, bool(fastest >= slowest))
        return token

    def _call(self, what: str, is_close: bool) -> None:
        if is_close:
            self._now.close.append(what)

    def _commit(self, new: Sequence[int], verified: bool) -> None:
        now, start = self._now, len(self.text)
        text = [*self.text, *new]
        end, now.finish = len(text), None
        for length in range(start + 1, len(text) + 1):
            now.finish = self._ends(text[:length], self._stop_ids if verified else self._draft_ends)
            if now.finish is not None:
                end = length
                break
        looped = self._loop_end(text[:end], start)
        if looped is None or (now.finish is not None and looped == end):
            self._loop_was_verified = False
        elif self._decoding.mode in ("hybrid", "edge") and verified and not self._loop_was_verified:
            self._loop_was_verified, end, now.finish = True, looped, None
            self._widen()
        else:
            end, now.finish = looped, "loop"
        self.text = text[:end]
        now.committed = self.text[start:]
        now.source = now.source[: end - start]
        by = self._cloud if verified else self._drafter
        now.instead = [by.banned(self.text[:at])[0] for at in range(start, end)]

    def _ends(self, text: Sequence[int], stop_ids: Collection[int]) -> FinishReason | None:
        decoding = self._decoding
        if text[-1] in stop_ids:
            return "eos"
        written = self._case.pair.processor.text(text)
        if any(stop in written for stop in decoding.stop_strings):
            return "stop_string"
        if decoding.sentences is not None and count_sentences(written) >= decoding.sentences:
            return "sentences"
        if decoding.closing == "on" and description_end(written) is not None:
            return "closing"
        return "max_tokens" if len(text) >= decoding.max_new_tokens else None

    def _widen(self) -> None:
        """The more loops were found that may be left, the longer the unit of a loop of loops may be."""
        if self._decoding.mode in ("hybrid", "edge"):
            self._loops += 1
            self._period = self._decoding.loop_period * 3 * self._loops

    def _loop_end(self, text: Sequence[int], start: int) -> int | None:
        """The shortest prefix longer than `start` that ends in a run repeated often enough."""
        for end in range(start + 1, len(text) + 1):
            for unit in range(1, self._period + 1):
                times = 4 if unit == 1 else 3
                tail = list(text[max(end - unit * times, 0) : end])
                if len(tail) == unit * times and tail == tail[:unit] * times:
                    return end
        return None


def assert_rounds(case: Case, rounds: Sequence[Block], finished: Finished) -> str | None:
    """Compares a run with the reference, round by round.

    Returns:
        None, or the close calls with which the two part.

    Raises:
        LawBroken: they part without a close call, or a recorded figure is off.
    """
    reference = Reference(case)
    reference.read(finished.token_ids)
    finish: FinishReason | None = None
    for ours in rounds:
        name = f"case {case.number}, round {ours.index}"
        if finish is not None:
            raise LawBroken(f"{name}: the text was to end before")
        wanted = reference.round(ours.draft_ids)
        decided = (
            *(list(ours.draft_ids), ours.reason, ours.draft.gate_state is not None and ours.draft.gate_state.waking),
            *(ours.accepted, list(ours.committed_ids), list(ours.source)),
            [token.instead for token in ours.tokens],
        )
        expected = (
            *(wanted.draft_ids, wanted.reason, wanted.waking),
            *(wanted.accepted, wanted.committed, wanted.source),
            wanted.instead,
        )
        if decided != expected:
            if wanted.close:
                return f"{name}: {', '.join(sorted(set(wanted.close)))}"
            raise LawBroken(f"{name}: {decided} instead of {expected}, and no call was close")
        if not any(call.startswith(("top-k", "way out")) for call in wanted.close):
            _assert_figures(case, ours, wanted, name)
        finish = wanted.finish
    if (tuple(reference.text), finish) != (finished.token_ids, finished.finish_reason):
        raise LawBroken(f"case {case.number}: ends with {finished.finish_reason}, to end with {finish}")
    return None


def _assert_figures(case: Case, ours: Block, wanted: Expected, name: str) -> None:
    recorded = [(token.entropy, token.margin, token.logprob) for token in ours.draft.evidence]
    for row, token, found in zip(wanted.rows, wanted.draft_ids, recorded, strict=True):
        assert_figures(row, token, found, name)
    for row, score, expected in zip(
        wanted.rows, ours.draft.gate_state.values if ours.draft.gate_state else (), wanted.scores, strict=True
    ):
        most = 20 * allowed(row) * max(1.0, abs(expected)) + 1e-5
        if score != expected and not abs(score - expected) <= most:
            raise LawBroken(f"{name}: the gate's figure is {score:.6f}, and is to be {expected:.6f}")


def _first(*values: float | None) -> float:
    return next(value for value in values if value is not None)


def _class_entropy(row: torch.Tensor) -> float:
    """Nats, with the tokens of a class added up, and all that have none."""
    sums = dict.fromkeys([*CLASSES.values(), None], 0.0)
    for id_, p in enumerate(row.double().softmax(-1).tolist()):
        sums[CLASSES.get(id_)] += p
    return -sum(p * math.log(p) for p in sums.values() if p > 0)
