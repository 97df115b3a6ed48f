"""Weights of four bits: on a CPU the product of the codes, whatever the number of rows, and nothing else."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import BitsAndBytesConfig

from specdec_cli.config import ModelConfig
from specdec_cli.errors import CheckpointError
from specdec_cli.models import int4
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.engine import forward_together
from specdec_cli.models.int4 import PackedLinear, pack, packable
from specdec_cli.models.loading import _quantisation_config, forecast
from specdec_cli.models.session import Session
from tests.support.checkpoints import load
from tests.support.models import save_checkpoint, tiny_clip, tiny_module
from tests.tiers import few

WIDE = {"hidden": 128, "vocab_size": 320, "scale": 0.15}
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])


def decoded(layer: PackedLinear, weight: torch.Tensor) -> torch.Tensor:
    """What the codes of a weight stand for, worked out from the definition and not from the packed form."""
    scale, zero = layer.scales.float().transpose(0, 1).unsqueeze(2).unbind(-1)
    codes = ((weight.float().unflatten(1, (-1, 32)) - zero) / scale).round().clamp(-8, 7)
    return (codes * scale + zero).flatten(1)


def of(linear: nn.Linear) -> PackedLinear:
    made = PackedLinear(linear)
    made.weight, made.scales = pack(linear.weight.data)
    return made


@pytest.mark.parametrize("rows", [1, 4, 15, 16, 70])
@pytest.mark.parametrize(("inputs", "outputs"), [(64, 64), (128, 704), (192, 5184)])
@DTYPES
def test_the_product_is_that_of_the_codes(rows, inputs, outputs, dtype):
    torch.manual_seed(rows)
    linear = nn.Linear(inputs, outputs).to(dtype).requires_grad_(False)
    layer, x = of(linear), torch.randn(2, rows, inputs).to(dtype)
    expected = x.float() @ decoded(layer, linear.weight).T + linear.bias.float()
    for _ in range(2):  # the weights are as they were
        assert (layer(x).float() - expected).norm() < (1e-5 if dtype == torch.float32 else 0.01) * expected.norm()


@DTYPES
def test_scales_fit_their_groups_and_are_multiples_of_one_step(dtype):
    """Multiples cost little beside scales of any size, which no product in eight bits could use."""
    torch.manual_seed(0)
    weight = torch.distributions.StudentT(4.0).sample((128, 512)).to(dtype)
    weight[5], weight[6, :32] = 0.0, 3.0
    layer = of(nn.Linear(512, 128, bias=False).to(dtype).requires_grad_(False))
    layer.weight, layer.scales = pack(weight)
    assert layer.scales.is_contiguous()
    groups = weight.float().unflatten(1, (-1, 32))
    least, most = groups.aminmax(dim=-1, keepdim=True)
    span = ((most - least) / 15).clamp(min=1e-6)
    plain = ((groups - least) / span).round() * span + least
    assert (decoded(layer, weight) - weight.float()).norm() <= 1.1 * (plain - groups).norm()
    assert decoded(layer, weight)[5].abs().max() < 1e-6
    scales = layer.scales[..., 0].float()
    multiples = scales / scales.amax(dim=0) * 16
    assert (multiples - multiples.round()).abs().max() < 0.1  # what bfloat16 rounds


@pytest.mark.skipif(not int4.has_int8(), reason="this CPU has no VNNI")
def test_a_prompt_rounds_little_beside_the_weights_of_four_bits():
    torch.manual_seed(0)
    linear = nn.Linear(1024, 512, bias=False).bfloat16().requires_grad_(False)
    x = torch.randn(2 * int4._PREFILL, 1024).bfloat16()
    x[3, 5], x[4, :3] = 2000.0, 300.0  # with the scale of these, int8 would leave nothing of the other inputs
    expected = x.float() @ linear.weight.float().T
    layer = of(linear)
    with int4.reading_a_prompt():
        prefill = layer(x)
    assert not torch.equal(prefill, layer(x))
    steps = torch.cat([layer(row) for row in x.split(1)])
    lost, lost_by_steps = ((made.float() - expected).norm(dim=1) / expected.norm(dim=1) for made in (prefill, steps))
    assert (lost - lost_by_steps).max() < 0.01


@pytest.mark.parametrize("threads", [1, 2])
def test_chunks_that_end_in_a_part_are_whole(threads, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(int4, "_UNPACKED_AT_ONCE", 64 * 3 * 64)  # 192 outputs at a time, of 320
    linear = nn.Linear(64, 320, bias=False).requires_grad_(False)
    x, layer = torch.randn(16, 64), of(linear)
    expected = x @ decoded(layer, linear.weight).T
    assert (layer(x) - expected).abs().max() < 1e-4 * expected.std()


def test_a_kernel_with_an_order_that_is_not_known_is_found_out(monkeypatch):
    order = int4._in_kernel_order
    monkeypatch.setattr(int4, "_in_kernel_order", lambda codes, layout: order(codes, layout).roll(2, 1))
    int4._layout.cache_clear()
    try:
        with pytest.raises(CheckpointError, match="in an order that specdec does not support"):
            pack(torch.randn(64, 64))
    finally:
        int4._layout.cache_clear()


# --- models ---


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    return save_checkpoint(tiny_module(0, **WIDE), tmp_path_factory.mktemp("wide"))


def kinds(model: AudioLM) -> set[str]:
    return {name for name, part in model.module.named_modules() if isinstance(part, PackedLinear)}


def similarity(*models: AudioLM) -> float:
    """Least cosine similarity of two models' scores."""
    prompt = models[0].processor.prompt(tiny_clip(0), "say how")
    scores = [Session(model, prompt, 8).logits((1, 2, 3), 4)[:, :250] for model in models]
    return float(torch.cosine_similarity(*scores).min())


def test_decoder_and_output_layer_are_packed_and_nothing_else(checkpoint):
    whole, small = load(checkpoint), load(checkpoint, quantization="int4")
    assert kinds(small) == set(packable(whole.module))
    assert "lm_head" in kinds(small)
    assert not any("audio" in name for name in kinds(small))
    assert small.describe()["dtype"] == "int4/float32"
    assert small.self_test == "passed"
    assert small.weights == whole.weights
    assert similarity(whole, small) > 0.8


@pytest.mark.parametrize("quantization", few(["int4", None]))
def test_the_memory_that_is_forecast_is_what_the_weights_take(checkpoint, quantization):
    config = ModelConfig(model=str(checkpoint), device="cpu", quantization=quantization)
    module = load(checkpoint, quantization=quantization).module
    packed = [part for part in module.modules() if isinstance(part, PackedLinear)]
    tensors = [*module.parameters(), *(buffer for part in packed for buffer in part.buffers())]
    needs = forecast(config, offline=True)
    assert (needs.bytes, needs.download) == (round(1.1 * sum(tensor.nbytes for tensor in tensors)), 0)


def test_an_output_layer_that_is_the_embedding_is_packed_beside_it(tmp_path):
    module = tiny_module(0, **WIDE)
    module.config.text_config.tie_word_embeddings = module.config.tie_word_embeddings = True
    module.tie_weights()
    folder = save_checkpoint(module, tmp_path / "tied")
    whole, small = load(folder), load(folder, quantization="int4")
    assert "lm_head" in kinds(small)
    assert small.module.get_input_embeddings().weight.dtype == torch.float32
    assert similarity(whole, small) > 0.8


def test_neighbours_change_no_scores_however_many_tokens_lie_in_a_forward(checkpoint, monkeypatch):
    """As on a CPU with int8: only the prompt of one clip is rounded."""
    rounded = list[int]()

    def product(x: torch.Tensor, *_: Any) -> Any:
        rounded.append(len(x))
        return lambda codes, scales: (x.float().round() @ codes.float()) * scales

    monkeypatch.setattr(int4, "has_int8", lambda: True)
    monkeypatch.setattr(int4, "lacks_16_bits", lambda: False)
    monkeypatch.setattr(int4, "int8_product", product)
    model = load(checkpoint, quantization="int4", dtype="bfloat16", tested=False)
    prompts = [model.processor.prompt(tiny_clip(number, 3.0), "say how") for number in range(3)]
    assert len(prompts[0].ids) > int4._PREFILL
    text, joined = tuple(range(60)), [Session(model, prompt, 80) for prompt in prompts]
    for session in joined:
        session.logits(())
    assert set(rounded) == {len(prompts[0].ids)}
    rounded.clear()
    forward_together([(session, text, 60) for session in joined])
    assert not rounded


def test_a_model_whose_forwards_are_recorded_is_packed_as_well(checkpoint):
    plain, recorded = (load(checkpoint, quantization="int4", graphs=graphs) for graphs in ("off", "on"))
    assert recorded.slots is not None
    assert similarity(plain, recorded) > 0.9999


def test_other_devices_take_the_configurations_of_transformers():
    four = ModelConfig(model="m", quantization="int4")
    for device in ("cuda", "mps"):
        with pytest.raises(
            CheckpointError, match=f"int4 packs weights for a CPU, and m is loaded on {device}"
        ) as caught:
            _quantisation_config(four, torch.device(device))
        assert "quant_method: bitsandbytes" in str(caught.value.hint)
    own = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_compute_dtype": "bfloat16"}
    made = _quantisation_config(ModelConfig(model="m", quantization=own), torch.device("cuda"))
    assert isinstance(made, BitsAndBytesConfig)
    assert (made.load_in_4bit, made.bnb_4bit_compute_dtype) == (True, torch.bfloat16)
    assert _quantisation_config(ModelConfig(model="m"), torch.device("cuda")) is None


def test_what_transformers_lacks_for_its_configuration_is_said(checkpoint):
    with pytest.raises(CheckpointError, match=f"{checkpoint} cannot be loaded: ImportError: .*bitsandbytes"):
        load(checkpoint, quantization={"quant_method": "bitsandbytes", "load_in_4bit": True})
