"""Operations of a recorded step, counted on a CPU: a GPU spends some 3 us on each, however small."""

from collections import Counter
from functools import cache
from typing import Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from specdec_cli.models import compiled_steps
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.slots import Slots, _Shape
from tests.support.models import tiny_model

VIEWS: Final = ("chunk", "expand", "reshape", "select", "slice", "split", "transpose", "unsqueeze", "view")
"""Operations that make no kernel; those of a step reshape what lies in order."""


class _Counting(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.made: Counter[str] = Counter()

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(operation).split(".")[1]
        if name not in VIEWS:
            self.made[name] += 1
        return operation(*args, **kwargs or {})


def operations(of: Slots, shape: _Shape) -> Counter[str]:
    """Operations of a recorded forward by name, views left out."""
    with torch.inference_mode(), _Counting() as counting:
        of._forward(shape)
    return counting.made


@cache
def recorded(layers: int, clips: int = 1) -> AudioLM:
    model = tiny_model(1, layers=layers, graphs="on")
    model.reserve(clips)
    return model


def test_a_layer_of_a_step_takes_at_most_18_operations():
    deep, shallow = (operations(recorded(layers).slots, _Shape(1, 1, 512)) for layers in (4, 2))
    made = {name: (count - shallow[name]) / 2 for name, count in deep.items() if count > shallow[name]}
    assert made == {"linear": 4, "rms_norm": 2, "add": 2, "mul": 2, "silu": 1, "roll": 1, "addcmul": 1} | {
        "index_put_": 2,
        "scaled_dot_product_attention": 1,
    }
    assert sum(made.values()) <= 18


def test_a_step_of_16_clips_takes_hardly_more_operations_than_one_of_one_clip():
    one = operations(recorded(4).slots, _Shape(1, 1, 512)).total()
    for clips in (8, 16):  # fewer clips than slots are gathered
        joint = operations(recorded(4, 16).slots, _Shape(clips, 1, 512)).total()
        assert joint <= 1.2 * one


def test_a_step_that_cannot_be_compiled_is_recorded_as_it_is(monkeypatch, caplog):
    def refuse(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(compiled_steps, "_layer", refuse)
    monkeypatch.setattr(torch, "compile", lambda call, **_: call)
    model = tiny_model(1, graphs="on", compiled=True)
    assert "without compiled steps: no compiler" in caplog.text
    assert not model.slots.compiled
    assert model.describe()["graphs"] == "eager"
    assert model.slots._recorded


def test_a_model_whose_steps_are_not_recorded_keeps_the_layers_of_its_library():
    for model, fused in ((recorded(2), True), (tiny_model(1, graphs="off"), False)):
        assert ("forward" in vars(model.module.get_decoder().norm)) == fused
