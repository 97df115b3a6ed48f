"""Compiled decoder layers for steps of one token.

Compiling a layer fuses those of its kernels that are still separate. One layer is compiled for all: a whole forward
would be traced for seconds at every start, shape by shape, and gain only the kernels before and after the layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from specdec_cli.models.families import CACHE

_MOST_SHAPES: Final = 256  # of a layer in a process: clips and positions, of two models


class StepCache(Cache):  # type: ignore[misc]
    """The cache of a step of one token. Layers that are given it run compiled.

    Attributes:
        alone: a cache of each layer by itself: code that is compiled once for all layers must not read their numbers.
    """

    def __init__(self, layers: Sequence[CacheLayerMixin]) -> None:
        super().__init__(layers=list(layers))
        self.alone = [Cache(layers=[layer]) for layer in layers]


def let_layers_compile(module: Any) -> None:
    """Makes each layer of a decoder run compiled if its cache is a `StepCache`, and else as before."""
    compiled = torch.compile(_layer, dynamic=False, fullgraph=True)

    def watch(at: int, layer: Any) -> None:
        plain = layer.forward

        def forward(hidden_states: torch.Tensor, **kwargs: Any) -> Any:
            if not isinstance(cache := kwargs.get(CACHE), StepCache):
                return plain(hidden_states, **kwargs)
            return compiled(layer, hidden_states, kwargs | {CACHE: cache.alone[at]})

        layer.forward = forward

    for at, layer in enumerate(module.get_decoder().layers):
        watch(at, layer)


def _layer(layer: Any, hidden_states: torch.Tensor, kwargs: dict[str, Any]) -> Any:
    return type(layer).forward(layer, hidden_states, **kwargs)


def compile_every_shape() -> AbstractContextManager[None]:
    """Within the block PyTorch compiles every shape of a function; by default it compiles eight at most."""
    from torch._dynamo import config  # takes a second

    raised: AbstractContextManager[None] = config.patch(
        recompile_limit=_MOST_SHAPES, accumulated_recompile_limit=_MOST_SHAPES
    )
    return raised
