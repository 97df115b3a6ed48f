"""Recording a forward on a CPU as a CUDA graph does on a GPU: the operations and the memory, none of the Python."""

from __future__ import annotations

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.graphs import Forward, Graphs


def record(forward: Forward) -> Forward:
    """Repeats the operations that `forward` made once; reading a value back to the host raises, as in a capture."""
    recorded, unused = make_fx(lambda _: forward())(torch.zeros(1)), torch.zeros(1)
    return lambda: recorded(unused)


def recorded(model: AudioLM) -> AudioLM:
    """The model, with recorded forwards over caches of fixed size."""
    model.graphs = Graphs(model.module, model.layers, record)
    return model
