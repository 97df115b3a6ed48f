"""What a family's runs are compared with: the module's own scores, without a cache and without any code of specdec.

One forward over prompt and text gives the scores of every position; the library's processors are then applied to each
position with that position's own history. What counts as equal is in `tests.laws.tolerance`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import NoRepeatNGramLogitsProcessor, RepetitionPenaltyLogitsProcessor

from tests.laws import tolerance

Score = Callable[[Sequence[int]], torch.Tensor]
"""A text [n] -> cache-free scores [n, vocab]; row i is what token i is chosen by."""


def assert_law(text: Sequence[int], score: Score, *, stop_ids: Collection[int], max_new_tokens: int) -> None:
    """Each token is as good as the best one, and the text ends where it has to."""
    assert 0 < len(text) <= max_new_tokens
    assert len(text) == max_new_tokens or text[-1] in stop_ids, "the text ends too early"
    assert not set(text[:-1]) & set(stop_ids), "the text goes on after its end"
    rows = score(text)
    tolerance.assert_law(text, lambda before: rows[len(before)])


def assert_agree(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    """Recorded scores [m, vocab] equal cache-free ones, wherever both are finite."""
    finite = ours.isfinite() & theirs.isfinite()
    apart = torch.where(finite, (ours - theirs).abs(), 0.0).amax(-1).tolist()
    beyond = [by for by, row in zip(apart, theirs, strict=True) if not by <= tolerance.allowed(row)]
    assert not beyond, f"scores differ by {beyond}"


@torch.no_grad()
def cache_free_logits(module: Any, prompt: Any, text: Sequence[int]) -> torch.Tensor:
    """Raw logits that decide each token of `text`, by one forward without a cache: float32 [n, rows]."""
    ids = torch.tensor([[*prompt.ids, *text]])
    output = module(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False, **prompt.audio)
    first = len(prompt.ids) - 1
    logits: torch.Tensor = output.logits[0, first : first + len(text)].float()
    return logits


@dataclass(frozen=True)
class Settings:
    """What changes scores; see `DecodingConfig`."""

    repetition_penalty: float = 1.0
    no_repeat_ngram: int = 0
    banned: Sequence[int] = ()

    def score(self, module: Any, prompt: Any, known: torch.Tensor | None = None) -> Score:
        """The cache-free score of a module after a prompt; `known`: the raw logits, where they are there already."""

        def score(text: Sequence[int]) -> torch.Tensor:
            rows = cache_free_logits(module, prompt, text) if known is None else known
            return torch.cat([self._processed([*prompt.ids, *text[:at]], rows[at]) for at in range(len(text))])

        return score

    def _processed(self, history: list[int], row: torch.Tensor) -> torch.Tensor:
        ids, scores = torch.tensor([history]), row[None].clone()
        if self.repetition_penalty != 1.0:
            scores = RepetitionPenaltyLogitsProcessor(self.repetition_penalty)(ids, scores)
        if self.no_repeat_ngram:
            scores = NoRepeatNGramLogitsProcessor(self.no_repeat_ngram)(ids, scores)
        scores[:, list(self.banned)] = -torch.inf
        return scores


@dataclass
class Tally:
    """Texts of a run of cases that part from `generate()`'s."""

    name: str
    cases: int = 0
    parted: list[str] = field(default_factory=list)

    def add(self, case: str, text: Sequence[int], generated: Sequence[int]) -> None:
        """Counts a case."""
        self.cases += 1
        if list(text) != list(generated):
            self.parted.append(f"{case}: {list(text)} instead of {list(generated)}")

    def close(self) -> None:
        """Prints the count, and fails if it is too high."""
        print(f"{self.name}: {len(self.parted)} of {self.cases} texts part from generate()'s")
        assert len(self.parted) <= tolerance.most_parting(self.cases), "\n".join(self.parted)
