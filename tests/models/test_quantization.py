"""On a GPU, quantisation needs packages that specdec does not install: it says their names."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest
import torch

from specdec_cli.errors import CheckpointError
from specdec_cli.models.device import quantization_config

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
needs_torchao = pytest.mark.skipif(find_spec("torchao") is None, reason="torchao is not installed")


def test_none_is_none() -> None:
    assert quantization_config(None, torch.device("cpu")) is None


@pytest.mark.parametrize(("name", "package"), [("int8", "torchao"), ("int4", "bitsandbytes")])
def test_a_missing_package_is_named(name: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(module: str, *_: Any) -> Any:
        assert module == package
        return None

    monkeypatch.setattr("specdec_cli.models.checkpoint.find_spec", find)
    with pytest.raises(CheckpointError, match=f"'{name}' needs the package {package}") as error:
        quantization_config(name, torch.device("cuda"))
    assert error.value.hint == f"Install it with: pip install {package}"


def test_four_bits_elsewhere_are_refused() -> None:
    with pytest.raises(CheckpointError, match="'int4' runs on CUDA and on CPUs, and the device is mps") as error:
        quantization_config("int4", torch.device("mps"))
    assert "int8" in str(error.value.hint)
