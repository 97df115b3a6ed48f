"""The token-by-token parts of a Qwen2 decoder, compiled by PyTorch; attention stays as it is.

The parts lie between two attentions, so a forward makes one compiled call per layer and one more, and caches of any
length and any number of clips go through the same code. The number of rows is dynamic: one piece of code computes a
prompt, a block and a token, and a row's bits do not depend on which. They may differ from the uncompiled parts' in the
last place, as fused arithmetic rounds less often.

"default" compiles these parts. "reduce-overhead" records them as CUDA graphs, for a single token at a time; prompts
and blocks take the uncompiled parts there.

Everything is compiled and compared with the uncompiled parts when a model is loaded, so that what cannot be compiled
is known, and said, before the first clip.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeAlias

import torch
from torch import nn
from torch.nn.functional import linear, silu
from transformers.activations import SiLUActivation

from specdec_cli.errors import DecodingError
from specdec_cli.models.layers import Angles, Entered, Matrix, Parts, matrices

_log = logging.getLogger(__name__)

_TRIAL_ROWS: Final = 8  # rows of the first trial, which stand for any number of them
_REPLAYS: Final = 3  # a CUDA graph is run, recorded, then replayed
_CLOSE: Final = {torch.float32: 1e-3}  # largest difference of a trial, as a share of the largest number
_CLOSE_16_BIT: Final = 0.1
_REASON_LENGTH: Final = 120

Part: TypeAlias = Callable[..., Any]


class Uncompilable(Exception):
    """Why a model's parts are not compiled."""


class _Weights(NamedTuple):
    """A layer's; the products that share their input may be one."""

    norm_before: torch.Tensor
    projections: tuple[Matrix, ...]
    out: tuple[Matrix, ...]
    norm_behind: torch.Tensor
    gate_up: tuple[Matrix, ...]
    down: tuple[Matrix, ...]


class CompiledParts(Parts):
    """`Parts` that are compiled.

    Args:
        module: the text model.
        mode: "default" or "reduce-overhead".

    Raises:
        Uncompilable: PyTorch cannot compile them here, or the result computes something else.
    """

    def __init__(self, module: Any, mode: str) -> None:
        self._graphs = mode == "reduce-overhead"
        device = module.norm.weight.device.type
        if self._graphs and device != "cuda":
            raise Uncompilable(f"reduce-overhead records CUDA graphs, and the model is on {device}")
        config = module.config
        self._weights = [_weights(layer) for layer in module.layers]
        self._last_norm: torch.Tensor = module.norm.weight.detach()
        if self._graphs:  # else every replay would copy them
            for weight in _tensors(self._weights):
                torch._dynamo.mark_static_address(weight, guard=False)
        heads = int(config.num_attention_heads)
        turning = heads + int(config.num_key_value_heads)
        parts = _parts(float(config.rms_norm_eps), turning, turning + int(config.num_key_value_heads))
        self._plain = parts
        self._compiled = tuple(
            torch.compile(part, fullgraph=True, dynamic=False, options=_options(self._graphs)) for part in parts
        )
        head_dim = int(getattr(config, "head_dim", None) or config.hidden_size // heads)
        self._trial(heads * head_dim, head_dim)

    def before(self, hidden: torch.Tensor, angles: Angles) -> Entered:
        if self._graphs:
            torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        entered: Entered = self._run(0, hidden, self._weights[0], *angles)
        return entered

    def between(
        self, index: int, hidden: torch.Tensor, found: torch.Tensor, angles: Angles
    ) -> tuple[torch.Tensor, Entered]:
        hidden, turned, values = self._run(1, hidden, found, self._weights[index], self._weights[index + 1], *angles)
        return hidden, (turned, values)

    def behind(self, hidden: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self._run(2, hidden, found, self._weights[-1], self._last_norm)
        return result.clone() if self._graphs else result  # the next replay writes where it lies

    def _run(self, part: int, hidden: torch.Tensor, *rest: Any) -> Any:
        if self._graphs and len(hidden) > 1:
            return self._plain[part](hidden, *rest)
        try:
            return self._compiled[part](hidden, *rest)
        except RuntimeError as error:  # other than what was tried when loading: a thread that has no graphs, say
            raise DecodingError(
                f"the compiled decoder fails: {_reason(error)}", hint="Set compile to off for this model."
            ) from error

    @torch.inference_mode()
    def _trial(self, attended: int, head_dim: int) -> None:
        """Compiles everything and holds the result to the uncompiled parts'."""
        few = 1 if self._graphs or not _filled_rows(self._last_norm) else _TRIAL_ROWS // 2
        sizes = [few] * _REPLAYS if self._graphs else [_TRIAL_ROWS, few]
        compiled = self._compiled
        for rows in sizes:
            try:
                with _quiet():
                    found = self._chain(rows, attended, head_dim)
            except Exception as error:  # compilers raise what they like
                _log.debug("not compiled", exc_info=True)
                raise Uncompilable(_reason(error.__cause__ or error)) from error
            self._compiled = self._plain
            wanted = self._chain(rows, attended, head_dim)
            self._compiled = compiled
            close = _CLOSE.get(wanted.dtype, _CLOSE_16_BIT) * float(wanted.abs().amax())
            if not float((found - wanted).abs().amax()) <= close:
                raise Uncompilable("the compiled decoder computes something else")

    def _chain(self, rows: int, attended: int, head_dim: int) -> torch.Tensor:
        """All parts one behind the other, over made-up numbers in place of attention."""
        weight = self._last_norm

        def numbers(*shape: int) -> torch.Tensor:
            count = torch.Size(shape).numel()
            made = torch.arange(count, device=weight.device).mul(0.7).sin().view(shape).to(weight.dtype)
            if rows > 1:
                torch._dynamo.mark_dynamic(made, 0)
            return made

        hidden, found = numbers(rows, len(weight)), numbers(rows, attended)
        angles = (numbers(rows, 1, head_dim), numbers(rows, 1, head_dim))
        self.before(hidden, angles)
        for index in range(len(self._weights) - 1):
            hidden, _ = self.between(index, hidden, found, angles)
            if rows > 1:
                torch._dynamo.maybe_mark_dynamic(hidden, 0)
        return self.behind(hidden, found)


def _parts(epsilon: float, turning: int, heads: int) -> tuple[Part, Part, Part]:
    """What comes before the first attention, between two, and behind the last.

    Args:
        epsilon: of the norms.
        turning: heads of queries and keys, which positions turn.
        heads: those and the heads of the values.
    """

    def before(hidden: torch.Tensor, own: _Weights, cos: torch.Tensor, sin: torch.Tensor) -> Entered:
        projected = _product(_normed(hidden, own.norm_before, epsilon), own.projections)
        projected = projected.view(len(hidden), heads, -1)
        turned = projected[:, :turning]
        half = turned.shape[-1] // 2
        rolled = torch.cat((turned[..., half:], turned[..., :half]), dim=-1)
        return turned * cos + rolled * sin, projected[:, turning:]

    def through(hidden: torch.Tensor, found: torch.Tensor, own: _Weights) -> torch.Tensor:
        hidden = hidden + _product(found, own.out)
        gate, up = _product(_normed(hidden, own.norm_behind, epsilon), own.gate_up).chunk(2, dim=-1)
        return hidden + _product(silu(gate) * up, own.down)

    def between(
        hidden: torch.Tensor,
        found: torch.Tensor,
        own: _Weights,
        following: _Weights,
        cos: torch.Tensor,
        sin: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        hidden = through(hidden, found, own)
        return hidden, *before(hidden, following, cos, sin)

    def behind(hidden: torch.Tensor, found: torch.Tensor, own: _Weights, norm: torch.Tensor) -> torch.Tensor:
        return _normed(through(hidden, found, own), norm, epsilon)

    return before, between, behind


def _normed(rows: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """Root mean square norm, in float32 and rounded where transformers rounds."""
    wide = rows.float()
    wide = wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + epsilon)
    return weight * wide.to(rows.dtype)


def _product(rows: torch.Tensor, sides: tuple[Matrix, ...]) -> torch.Tensor:
    found = [linear(rows, weight, bias) for weight, bias in sides]
    return found[0] if len(found) == 1 else torch.cat(found, dim=-1)


def _weights(layer: Any) -> _Weights:
    attention, mlp = layer.self_attn, layer.mlp
    if not isinstance(mlp.act_fn, SiLUActivation | nn.SiLU):
        raise Uncompilable("the MLP has another activation than SiLU")
    modules: tuple[tuple[nn.Linear, ...], ...] = (
        (attention.q_proj, attention.k_proj, attention.v_proj),
        (attention.o_proj,),
        (mlp.gate_proj, mlp.up_proj),
        (mlp.down_proj,),
    )
    held = [matrices(those) for those in modules]
    if any(those is None for those in held):
        raise Uncompilable("the weights are quantised or moved about")
    projections, out, gate_up, down = (those for those in held if those is not None)
    return _Weights(
        norm_before=layer.input_layernorm.weight.detach(),
        projections=projections,
        out=out,
        norm_behind=layer.post_attention_layernorm.weight.detach(),
        gate_up=gate_up,
        down=down,
    )


def _tensors(weights: Iterable[_Weights]) -> Iterable[torch.Tensor]:
    for own in weights:
        yield from (own.norm_before, own.norm_behind)
        for side in (*own.projections, *own.out, *own.gate_up, *own.down):
            yield from (part for part in side if part is not None)


def _options(graphs: bool) -> dict[str, Any]:
    """Of the compiler: one code for any number of CPU threads, since a batch sets another than a clip alone."""
    return {
        "triton.cudagraphs": graphs,
        "cpp.dynamic_threads": True,
        "guard_filter_fn": lambda guards: [guard.guard_type != "GLOBAL_STATE" for guard in guards],
    }


def _filled_rows(weight: torch.Tensor) -> bool:
    """Whether rows come in multiples, never one alone; see `packed.filled`."""
    return weight.device.type == "cpu" and weight.dtype == torch.float32


@contextmanager
def _quiet() -> Any:
    """Without what PyTorch warns of itself and logs of a compiler that fails: the reason is told in one place."""
    loggers = [logging.getLogger(name) for name in ("torch._inductor", "torch._dynamo")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def _reason(error: BaseException) -> str:
    """What a compiler said, in one short line."""
    inner = getattr(error, "inner_exception", error)
    line = next((line.strip() for line in str(inner).splitlines() if line.strip()), "")
    return f"{type(inner).__name__}: {line}"[:_REASON_LENGTH].rstrip(" :")
