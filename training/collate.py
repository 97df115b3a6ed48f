"""Batches of dialogues for decoder training: one clip, several instructions and captions that share its audio.

Row layout: system turn and audio once (branch 0), then for each instruction what follows the audio and its caption
(branches 1, 2, ...). A token sees branch 0 and its own branch, and positions go on from the audio in every branch,
so each branch is computed exactly as if it stood alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import nn
from transformers import Qwen2_5OmniThinkerForConditionalGeneration

from specdec_cli.prompts import Language, Style
from training.captions import STYLE_WEIGHTS, WORDS, attributes_of
from training.dialogue import Dialogue
from training.feature_cache import Encoded
from training.labels import CLASSES
from training.recipes import DecoderRecipe

PADDING: Final = -1
EMPHASISED: Final = ("pitch", "range")
LONGEST_MASK: Final = 0.15
"""Of a clip, that one stretch may hide."""
_KINDS: Final[list[tuple[Language, Style]]] = [(language, style) for language in WORDS for style in STYLE_WEIGHTS]
_KIND_WEIGHTS: Final = [STYLE_WEIGHTS[style] / len(WORDS) for _, style in _KINDS]


@dataclass(frozen=True)
class Batch:
    """Right-padded rows; a position holds what should be predicted *there*, the token that follows.

    Shapes: `embeddings` (rows, length, hidden); `branches` (-1 is padding), `positions`, `targets`, `weights`
    (rows, length); `emotion` and `emotion_words` (rows, length, 7): the soft target and its token ids, -1 elsewhere.
    """

    embeddings: torch.Tensor
    branches: torch.Tensor
    positions: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor
    emotion: torch.Tensor
    emotion_words: torch.Tensor


def branch_mask(branches: torch.Tensor) -> torch.Tensor:
    """Attention mask (rows, 1, length, length) to add to scores: 0 where a token may look, far below elsewhere."""
    length = branches.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    seen = (branches[:, None, :] == 0) | (branches[:, None, :] == branches[:, :, None])
    return torch.zeros(seen.shape).masked_fill_(~(seen & causal), -1e4)[:, None]


class Collator:
    """Turns encoded examples into batches. `balance`: loss weights by attribute and class, 1 where not given."""

    def __init__(
        self,
        model: Qwen2_5OmniThinkerForConditionalGeneration,
        dialogue: Dialogue,
        recipe: DecoderRecipe,
        balance: Mapping[str, Mapping[str, float]],
    ) -> None:
        self.model = model
        self.dialogue = dialogue
        self.recipe = recipe
        self.balance = balance
        self._words: dict[Language, torch.Tensor] = {
            language: torch.tensor(dialogue.emotion_ids(language)) for language in WORDS
        }

    def __call__(self, examples: Sequence[Encoded], rng: np.random.Generator, generator: torch.Generator) -> Batch:
        """One batch; all draws come from `rng` and `generator`."""
        rows = [self._row(example, rng, generator) for example in examples]

        def pad(name: str, value: float = 0) -> torch.Tensor:
            parts = [getattr(row, name) for row in rows]
            return nn.utils.rnn.pad_sequence(parts, batch_first=True, padding_value=value)

        return Batch(
            embeddings=pad("embeddings"),
            branches=pad("branches", PADDING),
            positions=pad("positions"),
            targets=pad("targets"),
            weights=pad("weights"),
            emotion=pad("emotion"),
            emotion_words=pad("emotion_words", PADDING),
        )

    def _row(self, example: Encoded, rng: np.random.Generator, generator: torch.Generator) -> Batch:
        """One clip with its branches, without the batch dimension."""
        tower, embed = self.model.model.audio_tower, self.model.get_input_embeddings()
        states = disturb(example.states.float(), self.recipe.noise, rng, generator)
        audio = tower.proj(tower.ln_post(states))
        before = self.dialogue.before
        prefix = len(before) + len(audio)
        tokens, branches, positions = [*before], [0] * prefix, [*range(prefix)]
        targets, weights, soft = [0] * prefix, [0.0] * prefix, {}
        kinds = rng.choice(len(_KINDS), self.recipe.captions, replace=False, p=_KIND_WEIGHTS)
        target = torch.tensor([example.emotion.get(name, 0.0) for name in CLASSES["emotion"]])
        target = target * (1.0 - self.recipe.smoothing) + self.recipe.smoothing / len(target)
        for branch, kind in enumerate(kinds.tolist(), start=1):
            language, style = _KINDS[kind]
            classes, known = self._classes(example, language, style, rng)
            answer = self.dialogue.answer(classes, language, style)
            after = self.dialogue.after(language, style)
            ids = [*after, *answer.ids[:-1]]  # the end token is only predicted
            start = len(branches) + len(after) - 1
            soft[start + answer.attributes.index("emotion")] = self._words[language]
            tokens += ids
            branches += [branch] * len(ids)
            positions += range(prefix, prefix + len(ids))
            targets += [0] * (len(after) - 1) + answer.ids
            weights += [0.0] * (len(after) - 1)
            weights += [self._weight(name, classes, known, example) for name in answer.attributes]
        text = embed(torch.tensor(tokens))
        emotion = torch.zeros(len(branches), len(target))
        words = torch.full((len(branches), len(target)), PADDING)
        for place, ids_of_words in soft.items():
            emotion[place], words[place] = target, ids_of_words
        return Batch(
            embeddings=torch.cat([text[: len(before)], audio.to(text.dtype), text[len(before) :]]),
            branches=torch.tensor(branches),
            positions=torch.tensor(positions),
            targets=torch.tensor(targets),
            weights=torch.tensor(weights),
            emotion=emotion,
            emotion_words=words,
        )

    def _classes(
        self, example: Encoded, language: Language, style: Style, rng: np.random.Generator
    ) -> tuple[dict[str, str], set[str]]:
        """Classes for a caption, and which of them are known; unknown ones are drawn."""
        known = dict(example.classes)
        if example.emotion:
            shares = np.array(list(example.emotion.values()))
            known["emotion"] = list(example.emotion)[int(rng.choice(len(shares), p=shares / shares.sum()))]
        classes = {name: known.get(name) or str(rng.choice(CLASSES[name])) for name in attributes_of(language, style)}
        return classes, set(known)

    def _weight(self, name: str, classes: dict[str, str], known: set[str], example: Encoded) -> float:
        if not name:
            return self.recipe.scaffold
        if name not in known:
            return 0.0
        if name == "emotion":
            return self.recipe.emotion * example.emotion_weight
        return self.balance.get(name, {}).get(classes[name], 1.0)


def class_balance(examples: Sequence[Encoded], emphasis: float) -> dict[str, dict[str, float]]:
    """Weights of the rate classes: the inverse root of each class's share, relative to equal shares, 0.5 to 2.

    Only rate is balanced: its shares follow the corpora (English is slow in them), not how people speak.

    Args:
        examples: what is trained on.
        emphasis: factor on the words of rate, pitch and range, which are learned last.
    """
    counts = Counter(example.classes["rate"] for example in examples if "rate" in example.classes)
    equal = counts.total() / len(CLASSES["rate"])
    rates = {label: emphasis * float(np.clip((equal / count) ** 0.5, 0.5, 2.0)) for label, count in counts.items()}
    return {"rate": rates} | {name: dict.fromkeys(CLASSES[name], emphasis) for name in EMPHASISED}


def disturb(states: torch.Tensor, noise: float, rng: np.random.Generator, generator: torch.Generator) -> torch.Tensor:
    """Gaussian noise, up to `noise` standard deviations, on half of the clips; 0-2 stretches set to the mean state."""
    if rng.random() < 0.5:
        scale = rng.uniform(0.0, noise) * float(states.std())
        states = states + scale * torch.randn(states.shape, generator=generator)
    for _ in range(int(rng.integers(0, 3))):
        width = int(rng.uniform(0.0, LONGEST_MASK) * len(states))
        start = int(rng.integers(0, len(states) - width))
        states[start : start + width] = states.mean(dim=0)
    return states
