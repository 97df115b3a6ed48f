"""Models of published sizes: their sizes are right, they step, and what cannot fit is refused."""

from types import SimpleNamespace

import pytest
import torch

from specdec_cli.errors import ConfigError
from tools import full_size
from tools.full_size import main
from tools.made_up import allocated


@pytest.mark.parametrize(("name", "text", "tower"), [("3b", 3.397e9, 0.64e9), ("7b", 7.616e9, 0.64e9)])
def test_the_published_sizes_have_their_weights(name, text, tower):
    assert allocated(name, "float32") / 4 == pytest.approx(text + tower, rel=0.01)


def test_what_does_not_fit_is_refused_before_anything_is_built(monkeypatch):
    monkeypatch.setattr(full_size, "build", lambda *_: pytest.fail("it was built"))
    monkeypatch.setattr(full_size.psutil, "virtual_memory", lambda: SimpleNamespace(available=8 * 2**30))
    with pytest.raises(ConfigError, match=r"3b bfloat16 needs 9\.\d GiB on cpu, and 8\.0 GiB are free"):
        main("3b", device="cpu")


@pytest.mark.slow
def test_number_formats_with_and_without_recorded_forwards(capsys):
    main("tiny", dtype="bfloat16,int4", device="cpu", k=2, graphs="on", threads=1)
    page = capsys.readouterr().out
    (over_floor,) = [line.split()[3:] for line in page.splitlines() if line.startswith("step / floor")]
    assert len(over_floor) == 4
    assert all(float(cell) > 0 for cell in over_floor)


@pytest.mark.slow
def test_chosen_tokens_pass_as_often_as_asked(capsys):
    main("tiny,tiny", dtype="float32", device="cpu", k=3, acceptance="0,0.7,1", rounds=8, threads=1)  # raises at others
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("tiny")]
    passed = {float(a): float(share) for _, _, mode, a, share, *_ in rows if mode == "lossless"}
    assert passed == {0.0: 0.0, 0.7: pytest.approx(0.7, abs=0.09), 1.0: 1.0}


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_published_pair_steps_on_a_gpu(capsys):
    free, needed = torch.cuda.mem_get_info()[0], sum(allocated(name, "bfloat16") for name in ("3b", "7b"))
    if free < needed + 2**31:
        pytest.skip(f"needs {needed / 2**30:.0f} GiB of GPU memory, and {free / 2**30:.0f} GiB are free")
    main("3b,7b", device="cuda")
    assert "lossless" in capsys.readouterr().out
