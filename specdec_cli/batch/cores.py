"""How a batch divides the CPU's cores between hearing clips and decoding them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import torch

from specdec_cli.decoding.build import Pair
from specdec_cli.models.encoders import Encoders

_SMALL: Final = 100_000_000
"""Weights up to which a decoding step is done sooner by one core than divided among several that are busy."""


@contextmanager
def shared_cores(pair: Pair) -> Iterator[Encoders | None]:
    """Within the block as many clips are heard at a time as PyTorch has threads, each by one core.

    This thread, which decodes, gives its other cores to them if the models are small. None where PyTorch has a single
    thread, or no model can be heard in another thread without a change in its result.
    """
    threads = torch.get_num_threads()
    if threads == 1 or not any(model.steady_encoder for model in pair.loaded):
        yield None
        return
    encoders = Encoders(threads)
    try:
        if all(0 < model.parameters <= _SMALL for model in pair.loaded):
            torch.set_num_threads(1)
        yield encoders
    finally:
        encoders.close()
        torch.set_num_threads(threads)  # one thread's number is also that of threads made after it
