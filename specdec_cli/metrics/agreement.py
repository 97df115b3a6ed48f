"""How close captions come to another model's captions of the same clips: quality where no references exist."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specdec_cli.metrics.text import chrf


@dataclass(frozen=True, slots=True)
class Agreement:
    """Captions against those of a target.

    Attributes:
        exact: share of captions that are the target's, character by character, 0 to 1.
        chrf: of the captions with the target's as references, 0 to 100.
        edit_distance: mean number of tokens inserted, deleted or replaced.
        edit_distance_normalised: mean of that number over the longer of the two, 0 to 1.
        clips: how many captions were compared.
    """

    exact: float
    chrf: float
    edit_distance: float
    edit_distance_normalised: float
    clips: int


def agreement(
    texts: Sequence[str], target_texts: Sequence[str], ids: Sequence[Sequence[int]], target_ids: Sequence[Sequence[int]]
) -> Agreement:
    """Compares captions clip by clip.

    Args:
        texts, target_texts: captions [n].
        ids, target_ids: their token ids [n][tokens].

    Raises:
        ValueError: no clips, or lists of different length.
    """
    from rapidfuzz.distance import Levenshtein

    clips = len(texts)
    if not clips or {len(target_texts), len(ids), len(target_ids)} != {clips}:
        raise ValueError("captions and token ids of the same clips are wanted, at least one")
    pairs = [(list(ours), list(theirs)) for ours, theirs in zip(ids, target_ids, strict=True)]
    return Agreement(
        exact=sum(ours == theirs for ours, theirs in zip(texts, target_texts, strict=True)) / clips,
        chrf=chrf(texts, [[text] for text in target_texts]),
        edit_distance=sum(Levenshtein.distance(*pair) for pair in pairs) / clips,
        edit_distance_normalised=sum(Levenshtein.normalized_distance(*pair) for pair in pairs) / clips,
        clips=clips,
    )
