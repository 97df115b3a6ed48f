"""On a GPU, quantisation needs packages that specdec does not install: it says their names."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch

from specdec_cli.errors import CheckpointError
from specdec_cli.models.loading import quantization_config

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
needs_torchao_absent = pytest.mark.skipif(find_spec("torchao") is not None, reason="torchao is installed")


def test_none_is_none() -> None:
    assert quantization_config(None, torch.device("cpu")) is None


@needs_torchao_absent
def test_a_missing_package_is_named() -> None:
    with pytest.raises(ImportError, match="torchao"):
        quantization_config("int8", torch.device("cuda"))


def test_four_bits_elsewhere_are_refused() -> None:
    with pytest.raises(CheckpointError, match="'int4' runs on CUDA and on CPUs, and the device is mps") as error:
        quantization_config("int4", torch.device("mps"))
    assert "int8" in str(error.value.hint)
