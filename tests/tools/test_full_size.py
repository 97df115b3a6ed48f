"""Models of published sizes: their sizes are right, they step, and what cannot fit is refused."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import typer

from specdec_cli.bench.memory import weight_bytes
from specdec_cli.decoding.build import Pair
from specdec_cli.errors import ConfigError
from specdec_cli.models.session import Session
from tools import full_size
from tools.full_size import FullSize, Order, main, measure, step_bytes
from tools.shapes import SHAPES, allocated, build, parameters

CPU = torch.device("cpu")


def order(shapes: str, dtype: str = "float32", device: str = "cpu") -> Order:
    return Order.parse(shapes, dtype, device, k=2, acceptances=(0.5,), rounds=1)


def silent(_: str) -> None:
    """Nobody watches."""


@pytest.mark.parametrize(("name", "text", "tower"), [("3b", 3.397e9, 0.64e9), ("7b", 7.616e9, 0.64e9)])
def test_the_published_sizes_have_their_weights(name: str, text: float, tower: float) -> None:
    assert parameters(SHAPES[name]) == pytest.approx(text + tower, rel=0.01)


def test_made_up_weights_step_and_are_the_same_again() -> None:
    scores = []
    for _ in range(2):
        model = build(SHAPES["tiny"], dtype="float32", device=CPU)
        clip = full_size._clip(model)
        scores.append(Session(model, clip.edge, 4).logits((), 1))
    assert scores[0].shape == (1, SHAPES["tiny"].vocabulary)
    assert scores[0][scores[0].isfinite()].std() > 0
    assert torch.equal(*scores)
    assert Pair.of(model, model).vocab_size <= SHAPES["tiny"].vocabulary


def test_a_step_reads_all_but_embedding_and_tower() -> None:
    model = build(SHAPES["tiny"], dtype="bfloat16", device=CPU)
    module = model.module
    skipped = [*module.get_input_embeddings().parameters(), *module.model.audio_tower.parameters()]
    everything = sum(parameter.nbytes for parameter in module.parameters())
    assert step_bytes(model) == pytest.approx(everything - sum(parameter.nbytes for parameter in skipped), rel=0.01)
    assert model.dtype == torch.bfloat16


def test_one_shape_is_measured() -> None:
    found = measure(order("tiny", "bfloat16"), silent)
    (shape,) = found.shapes
    assert shape.step_ms.value > 0
    assert shape.of_floor == pytest.approx(shape.step_ms.value / shape.floor_ms)
    assert shape.floor_ms == pytest.approx(shape.read_mb * 2**20 / found.copy_gb_s / 1e6)
    assert found.forced == []
    assert found.peak_mb is not None
    assert found.within == (found.peak_mb <= found.budget_mb)


def test_two_shapes_are_an_edge_and_a_cloud() -> None:
    found = measure(order("tiny+tiny"), silent)
    assert [forced.mode for forced in found.forced] == ["cloud", "lossless", "hybrid"]


def test_few_bits_are_fewer_bytes_and_step() -> None:
    models = [build(SHAPES["tiny"], dtype=dtype, device=CPU) for dtype in ("bfloat16", "int8", "int4")]
    read = [step_bytes(model) for model in models]
    assert read == sorted(read, reverse=True)
    for model in models:
        assert Session(model, full_size._clip(model).edge, 4).logits((), 1).isfinite().any()


def test_number_formats_take_turns() -> None:
    found = measure(order("tiny", "bfloat16,int4"), silent)
    assert [(shape.name, shape.dtype) for shape in found.shapes] == [("tiny", "bfloat16"), ("tiny", "int4")]
    assert all(shape.caption_ms and 0.0 < shape.step_ms.value < shape.caption_ms.value for shape in found.shapes)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "int4"])
def test_what_will_be_allocated_is_known_before(dtype: str) -> None:
    built = build(SHAPES["tiny"], dtype=dtype, device=CPU)
    assert allocated(SHAPES["tiny"], dtype) == weight_bytes(built.module)


def test_edges_of_several_formats_caption_with_a_cloud_behind_a_link() -> None:
    asked = Order.parse("tiny+tiny", "float32,int4", "cpu", k=2, acceptances=(1.0,), rounds=1, rtts=(20.0,))
    found = measure(asked, silent)
    formats = ("float32", "int4", "float32")
    assert [(shape.name, shape.dtype) for shape in found.shapes] == [("tiny", dtype) for dtype in formats]
    assert [(forced.name, forced.mode) for forced in found.forced] == [
        (f"{dtype}, 20 ms", mode) for dtype in ("float32", "int4") for mode in ("cloud", "lossless", "hybrid")
    ]
    certain = [forced for forced in found.forced if forced.mode == "lossless"]
    assert {forced.measured_acceptance for forced in certain} == {1.0}
    # 16 verifications of a caption of 48 tokens, each of which waits for a round trip
    assert all(forced.tokens_per_s.value < 48 / (16 * 0.02) for forced in certain)


def test_a_round_trip_needs_a_cloud() -> None:
    with pytest.raises(ConfigError, match="leads to a cloud"):
        Order.parse("tiny", "float32", "cpu", k=2, acceptances=(0.5,), rounds=1, rtts=(20.0,))


def test_what_does_not_fit_is_refused_before_anything_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full_size, "build", lambda *_, **__: pytest.fail("it was built"))
    monkeypatch.setattr(full_size.psutil, "virtual_memory", lambda: SimpleNamespace(available=8 * 2**30))
    with pytest.raises(ConfigError, match=r"3b needs 9\.\d GiB on cpu, and 8\.0 GiB are free"):
        measure(order("3b", "bfloat16"), silent)


@pytest.mark.parametrize("shapes", ["9b", "3b+7b+3b", "", "3b+"])
def test_unknown_shapes_are_refused(shapes: str) -> None:
    with pytest.raises(ConfigError, match="is none of"):
        order(shapes)


def test_the_command_prints_a_table_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    main("tiny+tiny", dtype="float32", device="cpu", k=2, acceptance="0.5", rounds=1, threads=None, json=False)
    page = capsys.readouterr().out
    assert "step / floor" in page
    assert "Forced acceptance" in page
    main("tiny", dtype="bfloat16", device="cpu", k=2, acceptance="0.5", rounds=1, threads=None, json=True)
    found = FullSize.model_validate_json(capsys.readouterr().out)
    assert (found.device, [(shape.name, shape.dtype) for shape in found.shapes]) == ("cpu", [("tiny", "bfloat16")])


@pytest.mark.parametrize(("dtype", "acceptance"), [("int3", "0.5"), ("float32", "1.5"), ("float32", "0.5,much")])
def test_numbers_that_mean_nothing_are_refused(dtype: str, acceptance: str) -> None:
    with pytest.raises(typer.BadParameter):
        main("tiny", dtype=dtype, device="cpu", k=2, acceptance=acceptance, rounds=1, threads=None, json=False)


@pytest.mark.gpu
@pytest.mark.full
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_published_pair_steps_on_a_gpu() -> None:
    free, needed = torch.cuda.mem_get_info()[0], 2 * sum(parameters(SHAPES[name]) for name in ("3b", "7b"))
    if free < needed + 2**31:
        pytest.skip(f"needs {needed / 2**30:.0f} GiB of GPU memory, and {free / 2**30:.0f} GiB are free")
    found = measure(order("3b+7b", "bfloat16", "cuda"), silent)
    assert found.within
