"""Other kernels for linear layers: the same product."""

import copy
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from specdec_cli.models import kernels
from specdec_cli.models.families import FAMILIES
from specdec_cli.models.kernels import FastLinear
from tests.support.kinds import KINDS
from tests.support.models import tiny_module

needs_onednn = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this PyTorch has no oneDNN"
)


@pytest.fixture
def anywhere(monkeypatch) -> None:
    """As on a processor of another maker than Intel."""
    monkeypatch.setattr(kernels, "_onednn_is_faster", lambda: True)


@pytest.fixture(params=[True, False], ids=["bias", "no bias"])
def layer(request) -> Iterator[nn.Linear]:
    torch.manual_seed(0)
    with torch.inference_mode():
        yield nn.Linear(96, 40, bias=request.param)


@needs_onednn
@pytest.mark.usefixtures("anywhere")
def test_onednn_multiplies_as_pytorch_does(layer):
    product = kernels._by_onednn(layer)
    assert product is not None
    for x in (torch.randn(17, 96), torch.randn(2, 30, 96), torch.randn(96, 64).T):
        torch.testing.assert_close(product(x), layer(x), atol=1e-5, rtol=1e-5)


@pytest.fixture
def without_avx512(monkeypatch) -> None:
    monkeypatch.setattr(kernels, "lacks_16_bits", lambda: True)


@pytest.mark.usefixtures("without_avx512")
def test_many_16_bit_rows_are_multiplied_in_float32(layer):
    narrow = nn.Linear(96, 40, bias=layer.bias is not None).to(torch.bfloat16)
    product = kernels._in_float32(narrow)
    assert product is not None
    for x in (torch.randn(17, 96), torch.randn(2, 30, 96), torch.randn(96, 64).T):
        made, wanted = product(x.bfloat16()), narrow(x.bfloat16())
        assert made.dtype == torch.bfloat16
        torch.testing.assert_close(made, wanted)


@pytest.mark.usefixtures("without_avx512")
@pytest.mark.parametrize("family", ["qwen2.5-omni", "gemma4"])  # Gemma's convolutions pad in their own forward
def test_16_bit_convolutions_run_in_float32(family):
    kind = KINDS[family]
    module = FAMILIES[family].module_class(kind.config(kind.tokenizer().get_vocab())).to(torch.bfloat16)
    module.requires_grad_(False)
    other = copy.deepcopy(module)
    kernels.replace_layers(module)
    convs = [(part, other.get_submodule(name)) for name, part in module.named_modules() if isinstance(part, nn.Conv1d)]
    assert convs
    for part, plain in convs:
        x = torch.randn(1, part.in_channels, 20).bfloat16()
        assert part.weight.dtype == torch.bfloat16
        torch.testing.assert_close(part(x), plain(x))


@needs_onednn
@pytest.mark.usefixtures("anywhere")
def test_every_linear_layer_is_replaced_and_keeps_its_weights():
    module = tiny_module(0)
    weights = {name: id(weight) for name, weight in module.named_parameters()}
    kernels.replace_layers(module)
    layers = [part for part in module.modules() if isinstance(part, nn.Linear)]
    assert layers
    assert all(isinstance(part, FastLinear) and part.product for part in layers)
    assert {name: id(weight) for name, weight in module.named_parameters()} == weights
