"""What a model's processor makes of a clip, by the length of the clip: measured once on two sounds, and interpolated.

It bounds what a client may send before anything of it is decoded. Whether ids and features fit each other to the last
frame is for the model's forward to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import torch

from specdec_cli.cloud.http import MalformedError
from specdec_cli.cloud.protocol import Shape
from specdec_cli.models.processor import Processor, Prompt, test_sound

_SOUNDS_S: Final = (1.0, 61.0)  # the second one takes three windows of 30 s where a processor cuts


class _Sound(NamedTuple):
    samples: int
    tokens: int  # that stand for audio
    shapes: dict[str, tuple[int, ...]]
    most: dict[str, int]  # of each tensor of integers: the largest value
    sums: dict[str, int]


class Layout:
    """The tensors of a model's clips: names, kinds, shapes, and what integers they hold."""

    def __init__(self, processor: Processor) -> None:
        self._rate = processor.sampling_rate
        self._placeholders = processor.family.placeholders(processor.config)
        longest_s = min(_SOUNDS_S[1], processor.window_s)
        made = [
            (round(seconds * self._rate), processor.prompt(test_sound(seconds, self._rate), "How?"))
            for seconds in (min(_SOUNDS_S[0], longest_s / 2), longest_s)
        ]
        self._floats = {name: values.is_floating_point() for name, values in made[0][1].audio.items()}
        self._one, self._two = (self._measured(samples, prompt) for samples, prompt in made)

    def require(self, samples: int, ids: tuple[int, ...], shapes: Mapping[str, Shape]) -> None:
        """Raises MalformedError unless ids and headers of tensors may be those of a clip of so many samples."""
        one, two = self._one, self._two
        tokens = sum(id_ in self._placeholders for id_ in ids)
        if {name: shape.floats for name, shape in shapes.items()} != self._floats or not (
            self._fits(samples, tokens, one.tokens, two.tokens)
            and all(
                len(shape.shape) == len(one.shapes[name])
                and all(
                    self._fits(samples, *sizes)
                    for sizes in zip(shape.shape, one.shapes[name], two.shapes[name], strict=True)
                )
                for name, shape in shapes.items()
            )
        ):
            raise MalformedError(f"ids or tensors are not those of a clip of {samples} samples")

    def require_values(self, samples: int, tensors: Mapping[str, torch.Tensor]) -> None:
        """Raises MalformedError where integers, such as masks, are not those of a clip of so many samples."""
        for name, most in self._one.most.items():
            values, other = tensors[name], self._two.most[name]
            fits = int(values.min()) >= 0 and int(values.max()) <= self._most(samples, most, other)
            if not fits or not self._fits(samples, int(values.sum()), self._one.sums[name], self._two.sums[name]):
                raise MalformedError(f"{name} is not that of a clip of {samples} samples")

    def _measured(self, samples: int, prompt: Prompt) -> _Sound:
        integers = {name: values for name, values in prompt.audio.items() if not values.is_floating_point()}
        return _Sound(
            samples,
            sum(id_ in self._placeholders for id_ in prompt.ids),
            {name: tuple(values.shape) for name, values in prompt.audio.items()},
            {name: int(values.max()) for name, values in integers.items()},
            {name: int(values.sum()) for name, values in integers.items()},
        )

    def _fits(self, samples: int, value: int, one: int, two: int) -> bool:
        """Whether a size lies on the line through those of the two sounds, give or take that of the first."""
        if one == two:
            return value == one
        return value > 0 and abs(value - self._on_line(samples, one, two)) <= one + 2

    def _most(self, samples: int, one: int, two: int) -> float:
        return one if one == two else self._on_line(samples, one, two) + one + 2

    def _on_line(self, samples: int, one: int, two: int) -> float:
        first, second = self._one.samples, self._two.samples
        return one + (samples - first) * (two - one) / (second - first)
