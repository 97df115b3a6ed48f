"""Compiled parts: a row's bits are its own, and whoever cannot have them is told why and captions all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor import config as inductor
from torch._inductor.utils import fresh_cache

from specdec_cli.captioner import Captioner
from specdec_cli.config import load_config
from specdec_cli.decoding.build import Pair
from specdec_cli.errors import DecodingError
from specdec_cli.models import compiled
from specdec_cli.models.compiled import CompiledParts, Uncompilable
from specdec_cli.models.layers import Parts
from specdec_cli.models.session import Session
from tests.compiler import COMPILER
from tests.mini_pair import mini_pair, voice
from tests.tiny import tiny_clip, tiny_model, tiny_module

Compile = Callable[..., Callable[..., Any]]


def _text_model(layers: int = 3) -> Any:
    return tiny_module(7, layers=layers).model.language_model


def _rows(count: int, *shape: int) -> torch.Tensor:
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(count))


def _through(parts: Parts, rows: torch.Tensor, found: torch.Tensor, angles: tuple[torch.Tensor, torch.Tensor]) -> Any:
    """All that the parts give for `rows`, in one line of numbers for each."""
    entered = parts.before(rows, angles)
    hidden, following = parts.between(0, rows, found, angles)
    given = [*entered, hidden, *following, parts.behind(hidden, found)]
    return torch.cat([part.flatten(1) for part in given], dim=1)


@COMPILER
@pytest.mark.slow
@torch.inference_mode()
def test_a_row_has_the_same_bits_whatever_stands_beside_it() -> None:
    parts, most = CompiledParts(_text_model(), "default"), 200
    rows, found = _rows(most, 32), _rows(most, 32) * 2
    angles = (_rows(most, 1, 8), _rows(most, 1, 8) * 2)
    whole = _through(parts, rows, found, angles)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for start, end in ((0, 4), (0, 8), (4, 8), (96, 108), (20, 120), (196, 200)):
            few = _through(parts, rows[start:end], found[start:end], (angles[0][start:end], angles[1][start:end]))
            assert torch.equal(few, whole[start:end]), (start, end)
    torch.testing.assert_close(whole, _through(Parts(_text_model()), rows, found, angles), rtol=1e-4, atol=1e-4)


def test_without_a_compiler_the_text_is_the_same_and_the_transcript_says_why() -> None:
    pair = mini_pair()
    assert pair.edge is not None
    config = load_config("mini", flags={"decoding.mode": "edge"}, environ={}).config
    wanted = Captioner(config, Pair.of(pair.edge, None)).run_samples(voice(3), "voice").finish()
    assert wanted.models.edge is not None
    assert wanted.models.edge.compiled is None
    torch._dynamo.reset()
    with fresh_cache(), inductor.patch({"cpp.cxx": ("/bin/false",)}):
        pair.edge.compile("default")  # type: ignore[attr-defined]
    try:
        found = Captioner(config, Pair.of(pair.edge, None)).run_samples(voice(3), "voice").finish()
    finally:
        pair.edge.compile("off")  # type: ignore[attr-defined]
        torch._dynamo.reset()
    assert found.models.edge is not None
    assert found.models.edge.compiled is not None
    assert found.models.edge.compiled.startswith("off: InvalidCxxCompiler")
    assert found.caption == wanted.caption


def test_cuda_graphs_want_cuda() -> None:
    model = tiny_model(1)
    model.compile("reduce-overhead")
    assert model.describe()["compiled"] == "off: reduce-overhead records CUDA graphs, and the model is on cpu"
    model.compile("off")
    assert "compiled" not in model.describe()


def test_weights_that_are_more_than_numbers_are_left_alone() -> None:
    module = _text_model()
    module.layers[1].mlp.down_proj.register_forward_pre_hook(lambda _module, inputs: inputs)
    with pytest.raises(Uncompilable, match="quantised or moved about"):
        CompiledParts(module, "default")


def test_other_kernels_than_sdpa_are_not_compiled() -> None:
    model = tiny_model(1)
    model._packed = None
    model.compile("default")
    assert model.compiled == "off: only plain sdpa attention can be"


def _compiles_into(monkeypatch: pytest.MonkeyPatch, compile_: Compile) -> None:
    monkeypatch.setattr(compiled.torch, "compile", compile_)


def test_a_compiler_that_computes_something_else_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(part: Callable[..., Any], **_options: Any) -> Callable[..., Any]:
        if part.__name__ != "behind":
            return part
        return lambda *given: part(*given) * 1.01

    _compiles_into(monkeypatch, wrong)
    with pytest.raises(Uncompilable, match="computes something else"):
        CompiledParts(_text_model(), "default")


def test_what_fails_behind_the_trial_is_an_error_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = True

    def failing(part: Callable[..., Any], **_options: Any) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            if not trial:
                raise RuntimeError("no graphs in this thread")
            return part(*given)

        return run

    _compiles_into(monkeypatch, failing)
    model = tiny_model(1)
    model.compile("default")
    assert model.compiled == "default"
    trial = False
    session = Session(model, model.build_prompt("say", model.features(tiny_clip(1))), 4)
    with pytest.raises(DecodingError, match="no graphs in this thread") as raised:
        session.advance((), 1)
    assert raised.value.hint == "Set compile to off for this model."


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_on_a_gpu_steps_give_what_they_give_uncompiled(mode: str) -> None:
    model = tiny_model(2)
    inputs = model.build_prompt("say", model.features(tiny_clip(1)))
    model.module.to("cuda")
    model = type(model)("on-gpu", model.module, model.processor)

    def scores() -> torch.Tensor:
        session = Session(model, inputs, 12)
        return torch.cat([session.advance(tuple(range(end)), 1) for end in range(10)])

    wanted = scores()
    model.compile(mode)
    assert model.compiled == mode
    torch.testing.assert_close(scores(), wanted, rtol=1e-3, atol=1e-3)
