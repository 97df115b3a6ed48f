"""Quantisation needs packages that specdec does not install: it works with them, and says their names without."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from specdec_cli.errors import CheckpointError
from specdec_cli.models.device import quantization_config
from specdec_cli.models.session import Session
from tests.models.checkpoints import greedy, load
from tests.tiny import tiny_clip

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
needs_torchao = pytest.mark.skipif(find_spec("torchao") is None, reason="torchao is not installed")


def test_none_is_none() -> None:
    assert quantization_config(None, CPU) is None


@pytest.mark.parametrize(
    ("name", "package", "device"), [("int8", "torchao", CPU), ("int8", "torchao", CUDA), ("int4", "bitsandbytes", CUDA)]
)
def test_a_missing_package_is_named(
    name: str, package: str, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(module: str, *_: Any) -> Any:
        assert module == package
        return None

    monkeypatch.setattr("specdec_cli.models.checkpoint.find_spec", find)
    with pytest.raises(CheckpointError, match=f"'{name}' needs the package {package}") as error:
        quantization_config(name, device)
    assert error.value.hint == f"Install it with: pip install {package}"


def test_four_bits_on_a_cpu_are_refused() -> None:
    with pytest.raises(CheckpointError, match="'int4' runs on CUDA only, and the device is cpu") as error:
        quantization_config("int4", CPU)
    assert "int8" in str(error.value.hint)


def test_loading_without_the_package_says_so(thinker_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specdec_cli.models.checkpoint.find_spec", lambda _: None)
    with pytest.raises(CheckpointError, match="needs the package torchao"):
        load(thinker_dir, quantization="int8")


@needs_torchao
@pytest.mark.filterwarnings("default")  # torchao's own
def test_eight_bits_stay_close_to_the_whole_numbers(thinker_dir: Path) -> None:
    whole, small = load(thinker_dir), load(thinker_dir, quantization="int8")
    weights = dict(small.module.named_parameters())
    assert "Int8" in type(weights["model.language_model.layers.0.mlp.up_proj.weight"]).__name__
    assert small.describe() == whole.describe()
    prompt = whole.processor.prompt(tiny_clip(0), "say how")
    scores = [Session(model, prompt, 8).logits((1, 2, 3), 4)[:, :250] for model in (whole, small)]
    assert torch.cosine_similarity(*scores).min() > 0.99
    assert len(greedy(small, 5)) == 5
