"""Weights of four and eight bits: on a CPU the product of the codes, whatever the number of rows, and nothing else."""

import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from torch import nn

from specdec_cli.config import ModelConfig
from specdec_cli.errors import CheckpointError
from specdec_cli.models import packed, quantizer
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.loading import forecast, quantization_config
from specdec_cli.models.packed import PackedLinear, packable
from specdec_cli.models.packing import pack
from specdec_cli.models.session import Session
from tests.models.checkpoints import edit_json, edit_weights, greedy, load, overwrite, remove
from tests.tiers import few
from tests.tiny import save_checkpoint, tiny_clip, tiny_module

BITS = pytest.mark.parametrize("bits", [4, 8])
WIDE = {"hidden": 128, "vocab_size": 320, "scale": 0.15}


def decoded(layer: PackedLinear, weight: torch.Tensor) -> torch.Tensor:
    """What the codes of a weight stand for, worked out from the definition and not from the packed form."""
    scales = layer.scales.float()
    if layer.bits == 8:
        return (weight.float() / scales[:, None]).round().clamp(-127, 127) * scales[:, None]
    scale, zero = scales.transpose(0, 1).unsqueeze(2).unbind(-1)
    codes = ((weight.float().unflatten(1, (-1, 32)) - zero) / scale).round().clamp(-8, 7)
    return (codes * scale + zero).flatten(1)


def of(linear: nn.Linear, bits: int) -> PackedLinear:
    made = PackedLinear(linear, bits)
    made.weight, made.scales = pack(linear.weight.data, bits)
    return made


@BITS
@pytest.mark.parametrize("rows", [1, 4, 15, 16, 70])
@pytest.mark.parametrize(("inputs", "outputs"), [(64, 64), (128, 704), (192, 5184)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_the_product_is_that_of_the_codes(bits, rows, inputs, outputs, dtype):
    torch.manual_seed(rows)
    linear = nn.Linear(inputs, outputs).to(dtype).requires_grad_(False)
    layer, x = of(linear, bits), torch.randn(2, rows, inputs).to(dtype)
    expected = x.float() @ decoded(layer, linear.weight).T + linear.bias.float()
    within = 1e-5 if dtype == torch.float32 else 0.01 if 2 * rows < packed._PREFILL else 0.02
    for _ in range(2):  # the weights are as they were
        assert (layer(x).float() - expected).norm() < within * expected.norm()


@BITS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_no_scale_leaves_more_than_what_spans_its_weights(bits, dtype):
    torch.manual_seed(0)
    weight = torch.distributions.StudentT(4.0).sample((128, 512)).to(dtype)
    layer = of(nn.Linear(512, 128, bias=False).to(dtype).requires_grad_(False), bits)
    layer.weight, layer.scales = pack(weight, bits)
    groups = weight.float() if bits == 8 else weight.float().unflatten(1, (-1, 32))
    least, most = groups.aminmax(dim=-1, keepdim=True)
    span = (torch.maximum(-least, most) / 127 if bits == 8 else (most - least) / 15).to(dtype).float()
    zero = torch.zeros_like(least) if bits == 8 else (least + 8 * span).to(dtype).float()
    plain = ((groups - zero) / span).round() * span + zero
    assert (decoded(layer, weight) - weight.float()).norm() <= (plain - groups).norm()
    if bits == 4:
        scales = layer.scales[..., 0].float()
        multiples = scales / scales.amax(dim=0) * 16
        assert (multiples - multiples.round()).abs().max() < 0.1  # what bfloat16 rounds


@BITS
def test_a_prefill_rounds_little_beside_the_weights_of_four_bits(bits):
    torch.manual_seed(0)
    linear = nn.Linear(1024, 512, bias=False).bfloat16().requires_grad_(False)
    x = torch.randn(2 * packed._PREFILL, 1024).bfloat16()
    x[3, 5], x[4, :3] = 2000.0, 300.0  # with the scale of these, int8 would leave nothing of the other inputs
    expected = x.float() @ linear.weight.float().T
    layer = of(linear, bits)
    prefill, steps = layer(x), torch.cat([layer(row) for row in x.split(1)])
    lost, lost_by_steps = ((made.float() - expected).norm(dim=1) / expected.norm(dim=1) for made in (prefill, steps))
    assert (lost - lost_by_steps).max() < (0.02 if bits == 8 else 0.01)


@BITS
@pytest.mark.parametrize("threads", [1, 2])
def test_chunks_that_end_in_a_part_are_whole(bits, threads, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(packed, "_WEIGHTS_AT_ONCE", 64 * 3 * 64)  # 192 outputs at a time, of 320
    linear = nn.Linear(64, 320, bias=False).requires_grad_(False)
    x = torch.randn(16, 64)
    layer = of(linear, bits)
    expected = x @ decoded(layer, linear.weight).T
    assert (layer(x) - expected).abs().max() < 1e-4 * expected.std()


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


@pytest.mark.parametrize("quantization", few(["int8", "int4"]))
def test_decoder_and_output_layer_are_packed_and_nothing_else(checkpoint, quantization):
    whole = load(checkpoint)
    small = load(checkpoint, quantization=quantization)
    assert kinds(small) == {*packable(whole.module)}
    assert "lm_head" in kinds(small)
    assert not any("audio_tower" in name for name in kinds(small))
    assert small.self_test == "passed"
    assert similarity(whole, small) > (0.99 if quantization == "int8" else 0.8)


@pytest.mark.parametrize("quantization", few(["int4", "int8", None]))
def test_the_memory_that_is_forecast_is_what_the_weights_take(checkpoint, quantization):
    config = ModelConfig(model=str(checkpoint), device="cpu", quantization=quantization)
    found, download = forecast(config, offline=True)
    module = load(checkpoint, quantization=quantization).module
    packed = {id(part.weight) for part in module.modules() if isinstance(part, PackedLinear)}
    packed |= {id(part.scales) for part in module.modules() if isinstance(part, PackedLinear)}
    tensors = [*module.parameters(), *(buffer for buffer in module.buffers() if id(buffer) in packed)]
    assert found.bytes == round(1.1 * sum(tensor.nbytes for tensor in tensors))
    assert download is None


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """The cache's folder of packed weights."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "specdec" / "packed"


def kept(home: Path) -> list[Path]:
    return [path for path in home.iterdir() if path.is_dir()]


@pytest.mark.parametrize(
    ("quantization", "shard", "weights"),
    few([("int8", "256MB", "model.safetensors"), ("int4", "64KB", "model.safetensors.index.json")]),
)
def test_a_later_start_reads_what_was_packed(checkpoint, quantization, shard, weights, home, monkeypatch):
    monkeypatch.setattr(quantizer, "_SHARD", shard)
    first = load(checkpoint, quantization=quantization)
    (folder,) = kept(home)
    assert {path.name for path in folder.iterdir()} >= {"config.json", weights}
    monkeypatch.setattr(quantizer, "pack", None)  # nothing is packed again
    second = load(checkpoint, quantization=quantization)
    assert second.describe() == first.describe()
    ours, theirs = first.module.state_dict(), second.module.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert greedy(second, 8) == greedy(first, 8)


@pytest.mark.ci
@pytest.mark.parametrize(
    "damage",
    [
        overwrite("model.safetensors", b"\0" * 100),
        remove("model.safetensors"),
        remove("config.json"),
        overwrite("config.json", b""),
    ],
)
def test_kept_weights_that_are_damaged_are_packed_again(damage, checkpoint, home, caplog):
    text = greedy(load(checkpoint, quantization="int4"), 8)
    (folder,) = kept(home)
    damage(folder)
    assert greedy(load(checkpoint, quantization="int4"), 8) == text
    assert f"the packed weights in {folder} are damaged" in caplog.text
    assert kept(home) == [folder]
    caplog.clear()
    assert greedy(load(checkpoint, quantization="int4"), 8) == text
    assert not caplog.text


def _tune_one_row(folder: Path) -> None:
    """Changes the first row of a layer, with the file's size and times as they were."""
    path = folder / "model.safetensors"
    before = path.stat()
    edit_weights(lambda tensors: tensors["lm_head.weight"][0].mul_(-3))(folder)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    "edit",
    few([_tune_one_row, edit_json("config.json", text_config__rms_norm_eps=0.5)]),
    ids=["a row", "the configuration"],
)
def test_a_checkpoint_that_was_changed_in_its_folder_is_packed_anew(edit, checkpoint, home, tmp_path):
    folder = shutil.copytree(checkpoint, tmp_path / "own")
    before = load(folder, quantization="int8")
    edit(folder)
    after = load(folder, quantization="int8")
    assert len(kept(home)) == 2
    assert similarity(before, after) < 0.9999


def test_a_full_disk_costs_the_kept_copy_only(checkpoint, home, monkeypatch, caplog):
    def full(*_: object, **__: object) -> None:
        raise SafetensorError("No space left on device")

    monkeypatch.setattr("transformers.modeling_utils.safe_save_file", full)
    assert kinds(load(checkpoint, quantization="int4", tested=False))
    assert kept(home) == []
    assert "No space left" in caplog.text


def test_an_output_layer_that_is_the_embedding_is_packed_beside_it(tmp_path):
    module = tiny_module(0, **WIDE)
    module.config.text_config.tie_word_embeddings = module.config.tie_word_embeddings = True
    module.tie_weights()
    folder = save_checkpoint(module, tmp_path / "tied")
    whole, small = load(folder), load(folder, quantization="int8")
    assert "lm_head" in kinds(small)
    assert similarity(whole, small) > 0.99


@BITS
@pytest.mark.parametrize("bias", [True, False])
def test_packed_layers_are_joined_without_taking_memory_twice(bits, bias):
    torch.manual_seed(0)
    linears = [nn.Linear(64, size, bias).bfloat16().requires_grad_(False) for size in (128, 64, 64)]
    layers = [of(linear, bits) for linear in linears]
    x = torch.randn(2, 3, 64).bfloat16()
    before = torch.cat([layer(x) for layer in layers], -1)
    joined = PackedLinear.joined(layers)
    for after in (joined(x), torch.cat([layer(x) for layer in layers], -1)):
        torch.testing.assert_close(after, before)
    storages = {part.untyped_storage().data_ptr() for each in (joined, *layers) for part in (each.weight, each.scales)}
    assert len(storages) == 2


@pytest.mark.parametrize("quantization", few(["int4", "int8"]))
def test_packed_layers_of_a_recorded_step_are_fused(checkpoint, quantization):
    plain, fused = (load(checkpoint, quantization=quantization, graphs=graphs) for graphs in ("off", "on"))
    layer = fused.module.get_decoder().layers[0]
    assert all("forward" in vars(part) for part in (layer.mlp, layer.self_attn, layer.input_layernorm))
    assert similarity(plain, fused) > 0.9999


def test_eight_bits_on_a_gpu_are_the_product_of_the_codes():
    torch.manual_seed(0)
    linear = nn.Linear(64, 128, bias=False).requires_grad_(False)
    layer, x = of(linear, 8), torch.randn(3, 64)
    torch.testing.assert_close(layer._on_gpu(x), x @ decoded(layer, linear.weight).T)


@BITS
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_kernel_with_another_order_is_found_out(bits, device, monkeypatch):
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    packed.require_product.cache_clear()
    packed.require_product(torch.device(device), bits)

    def turned(weight: torch.Tensor, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
        made, scales = pack(weight, bits)
        return made.roll(2, 1), scales

    packed.require_product.cache_clear()
    monkeypatch.setattr(packed, "pack", turned)
    with pytest.raises(CheckpointError, match=f"products with {bits}-bit weights are wrong"):
        packed.require_product(torch.device(device), bits)


@pytest.mark.parametrize(("name", "device"), [("int4", "cuda"), ("int4", "mps"), ("int8", "mps")])
def test_devices_and_formats_without_packed_products_are_named(name, device):
    with pytest.raises(CheckpointError, match=f"not float16 on {device}"):
        quantization_config(name, torch.device(device), torch.float16)
