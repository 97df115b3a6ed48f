"""Models of published sizes: their sizes are right, they step, and what cannot fit is refused."""

from types import SimpleNamespace

import pytest
import torch

from specdec_cli.errors import ConfigError
from tools import full_size
from tools.full_size import FullSize, Order, main, measure, shapes_of
from tools.shapes import SHAPES, parameters


def order(shapes: str, dtype: str = "float32", device: str = "cpu") -> Order:
    return Order(shapes_of(shapes), (dtype,), device, k=2, acceptances=(0.5,), rounds=1)


def silent(_: str) -> None:
    """Nobody watches."""


@pytest.mark.parametrize(("name", "text", "tower"), [("3b", 3.397e9, 0.64e9), ("7b", 7.616e9, 0.64e9)])
def test_the_published_sizes_have_their_weights(name, text, tower):
    assert parameters(SHAPES[name]) == pytest.approx(text + tower, rel=0.01)


def test_what_does_not_fit_is_refused_before_anything_is_built(monkeypatch):
    monkeypatch.setattr(full_size, "build", lambda *_, **__: pytest.fail("it was built"))
    monkeypatch.setattr(full_size.psutil, "virtual_memory", lambda: SimpleNamespace(available=8 * 2**30))
    with pytest.raises(ConfigError, match=r"3b needs 9\.\d GiB on cpu, and 8\.0 GiB are free"):
        measure(order("3b", "bfloat16"), silent)


@pytest.mark.slow
def test_the_command_prints_a_table_or_json(capsys):
    main("tiny,tiny", dtype="float32", device="cpu", k=2, acceptance="0.5", rounds=1, threads=1, json=False)
    page = capsys.readouterr().out
    assert "step / floor" in page
    assert "Chosen tokens" in page
    assert "step of 16 clips, ms" in page
    assert "of the speed of one alone" in page
    main("tiny", dtype="bfloat16", device="cpu", k=2, acceptance="0.5", rounds=1, threads=1, graphs="on", json=True)
    found = FullSize.model_validate_json(capsys.readouterr().out)
    assert (found.device, [(shape.name, shape.dtype) for shape in found.shapes]) == ("cpu", [("tiny", "bfloat16")] * 2)
    eager, recorded = found.shapes
    assert found.served[0].share == pytest.approx(found.served[0].alone_ms / found.served[0].shared_ms)
    assert (eager.together_ms, recorded.together_ms is not None) == (None, True)


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_published_pair_steps_on_a_gpu():
    free, needed = torch.cuda.mem_get_info()[0], 2 * sum(parameters(SHAPES[name]) for name in ("3b", "7b"))
    if free < needed + 2**31:
        pytest.skip(f"needs {needed / 2**30:.0f} GiB of GPU memory, and {free / 2**30:.0f} GiB are free")
    found = measure(order("3b,7b", "bfloat16", "cuda"), silent)
    assert found.within
