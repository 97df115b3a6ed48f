"""What a model's processor makes of a clip, by the length of the clip: measured once on two sounds, and interpolated.

It bounds what a client may send before anything of it is decoded. Whether ids and features fit each other to the last
frame is for the model's forward to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import torch

from specdec_cli.cloud.http import MalformedError
from specdec_cli.cloud.protocol import Shape
from specdec_cli.models.processor import Processor, test_sound

_SOUNDS_S: Final = (1.0, 61.0)  # the second one takes three windows of 30 s where a processor cuts


class Layout:
    """The tensors of a model's clips: names, kinds, shapes, and what integers they hold."""

    def __init__(self, processor: Processor) -> None:
        rate, longest_s = processor.sampling_rate, min(_SOUNDS_S[1], processor.window_s)
        self._placeholders = processor.placeholders
        sounds = [test_sound(seconds, rate) for seconds in (min(_SOUNDS_S[0], longest_s / 2), longest_s)]
        self._samples = [len(sound) for sound in sounds]
        made = [processor.prompt(sound, "How?") for sound in sounds]
        self._sizes = [
            self._counted(
                each.ids, ((name, values.is_floating_point(), values.shape) for name, values in each.audio.items())
            )
            for each in made
        ]
        self._integers = [_integers(each.audio) for each in made]

    def require(self, samples: int, ids: Sequence[int], shapes: Mapping[str, Shape]) -> None:
        """Raises MalformedError unless ids and headers of tensors may be those of a clip of so many samples."""
        tensors = ((name, each.floats, each.shape) for name, each in shapes.items())
        self._require(samples, self._counted(ids, tensors), *self._sizes)

    def require_values(self, samples: int, tensors: Mapping[str, torch.Tensor]) -> None:
        """Raises MalformedError where integers, such as masks, are not those of a clip of so many samples."""
        self._require(samples, _integers(tensors), *self._integers)

    def _counted(self, ids: Sequence[int], tensors: Iterator[tuple[str, bool, Sequence[int]]]) -> dict[str, int]:
        sizes = {"placeholders": sum(id_ in self._placeholders for id_ in ids)}
        for name, floats, shape in tensors:
            sizes[f"axes of {name}, {'floats' if floats else 'integers'}"] = len(shape)
            sizes |= {f"axis {axis} of {name}": size for axis, size in enumerate(shape)}
        return sizes

    def _require(self, samples: int, found: dict[str, int], one: dict[str, int], two: dict[str, int]) -> None:
        """Each number lies on the line through those of the two sounds, give or take that of the first."""
        first, second = self._samples
        share = (samples - first) / (second - first)
        for name in found.keys() | one.keys():
            value, low, high = found.get(name, -1), one.get(name, -1), two.get(name, -1)
            slack = low + 2 if low != high else 0
            if value < 0 or low < 0 or abs(value - low - share * (high - low)) > slack or (slack and value == 0):
                raise MalformedError(f"ids or tensors are not those of a clip of {samples} samples")


def _integers(tensors: Mapping[str, torch.Tensor]) -> dict[str, int]:
    """Sum and largest of each tensor of integers; -1 for one that holds negative ones."""
    sizes: dict[str, int] = {}
    for name, values in tensors.items():
        if not values.is_floating_point():
            valid = int(values.min()) >= 0
            sizes |= {f"sum of {name}": int(values.sum()) if valid else -1, f"largest of {name}": int(values.max())}
    return sizes
