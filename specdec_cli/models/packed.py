"""A Qwen2 decoder over several clips at once: their tokens lie end to end, and each clip attends to its own cache.

Nothing is padded to the longest clip and no slot is masked: clips may feed one token, a block or a whole prompt in the
same forward, a rejected token is forgotten by lowering the length of its clip's cache, and a clip that is done takes
its cache with it. All parts but attention work token by token; attention runs clip by clip, in exactly the shapes that
the clip would have alone. So what a clip scores does not depend on its neighbours, to the last bit, as long as the
matrix products do not depend on the number of tokens (see `ROW_MULTIPLE`).

The weights and their modules are transformers'; only the way through them is ours. It also spares a step of a small
model much of what transformers does around the arithmetic: rotary tables, masks, output classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.nn.functional import pad, scaled_dot_product_attention

from specdec_cli.models.compiled import CompiledParts, Uncompilable
from specdec_cli.models.family import Span
from specdec_cli.models.layers import Angles, Entered, Parts

ROW_MULTIPLE: Final = 4
"""Matrix products of float32 on the CPU get their rows in multiples of this many.

MKL computes a product of one to three rows, and one to three rows left over at the end of a thread's share, by other
kernels than all others, which round differently. In multiples of four a row's result is the same whatever stands
above and below it; measured for 1 to 400 rows, 1 and 2 threads and the sizes of tests and mini pair.
"""

_TABLE_STEP = 1024  # positions by which the rotary tables grow


class PackedDecoder:
    """The way through the layers of a transformers Qwen2 or Qwen2.5-Omni text model.

    Args:
        module: the text model; see `fits`.
    """

    @staticmethod
    def fits(config: Any) -> bool:
        """Whether this way leads through a model: full attention by `sdpa`, rotary angles that positions alone set."""
        return (
            config._attn_implementation == "sdpa"
            and set(config.layer_types) <= {"full_attention"}
            and config.rope_parameters["rope_type"] not in ("dynamic", "longrope")
        )

    def __init__(self, module: Any) -> None:
        self._module = module
        self._compile = "off"
        self._prepare()
        config = module.config
        self._query_heads = int(config.num_attention_heads)
        self._key_heads = int(config.num_key_value_heads)
        self._tables = (torch.empty(0), torch.empty(0))  # cosine, signed sine: [positions, 1, head_dim] each

    def compile(self, mode: str) -> str:
        """Compiles the parts around attention (see `compiled`); returns `mode`, or "off: " and why it is not done."""
        self._compile = mode
        return self._prepare()

    def _prepare(self) -> str:
        """Makes the parts of the layers out of the module's; returns how they are compiled."""
        self._made_from = self._module.norm.weight.detach()  # held, so that nothing else comes to lie at its address
        ran = self._compile
        with torch.inference_mode(False):  # the weights are not this forward's alone
            try:
                self._parts = Parts(self._module) if ran == "off" else CompiledParts(self._module, ran)
            except Uncompilable as error:
                self._parts, ran = Parts(self._module), f"off: {error}"
        return ran

    def __call__(self, embeddings: torch.Tensor, spans: Sequence[Span]) -> torch.Tensor:
        """[tokens, hidden] -> the same behind the last norm, extending the cache of every span."""
        if (
            self._module.norm.weight.data_ptr() != self._made_from.data_ptr()
        ):  # converted or moved since: all weights are others
            self._prepare()
        tokens = len(embeddings)
        hidden = filled(embeddings)
        rows = [_Rows.of(span, hidden.device) for span in spans]
        angles = self._rotary(spans, hidden)
        parts, last = self._parts, self._module.config.num_hidden_layers - 1
        entered = parts.before(hidden, angles)
        for index in range(last):
            hidden, entered = parts.between(index, hidden, self._attention(index, entered, rows), angles)
        return parts.behind(hidden, self._attention(last, entered, rows))[:tokens]

    def _attention(self, index: int, entered: Entered, rows: Sequence[_Rows]) -> torch.Tensor:
        """Layer `index`'s attention: [rows, heads * head_dim]."""
        turned, held = entered
        count, heads = len(turned), self._query_heads
        queries, keys = turned[:, :heads].transpose(0, 1), turned[:, heads:].transpose(0, 1)
        values = held.transpose(0, 1)
        parts: list[torch.Tensor] = []
        at = 0
        for row in rows:
            end = at + row.span.length
            known, content = row.span.cache.update(keys[None, :, at:end], values[None, :, at:end], index)
            parts.append(self._attend(queries[None, :, at:end], known, content, row))
            at = end
        if at < count:
            parts.append(parts[0].new_zeros(count - at, parts[0].shape[1]))
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def _attend(self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, row: _Rows) -> torch.Tensor:
        """One clip's attention: [1, heads, q, head_dim] and its cache -> [q, heads * head_dim]."""
        shared = self._query_heads != self._key_heads
        if shared and row.mask is not None and query.device.type != "cpu":
            # Off the CPU, a mask and shared heads together leave only the slow kernel that keeps all scores.
            keys, values = (held.repeat_interleave(self._query_heads // self._key_heads, 1) for held in (keys, values))
            shared = False
        found = scaled_dot_product_attention(
            query, keys, values, attn_mask=row.mask, is_causal=row.causal, enable_gqa=shared
        )
        return found[0].transpose(0, 1).reshape(query.shape[2], -1)

    def _rotary(self, spans: Sequence[Span], hidden: torch.Tensor) -> Angles:
        """Cosine and signed sine at the position of each row: two of [rows, 1, head_dim]."""
        cos, sin = self._tables
        if (cos.dtype, cos.device) != (hidden.dtype, hidden.device):
            cos = sin = hidden.new_empty(0)
        longest = max(span.start + span.length for span in spans)
        while len(cos) < longest:
            cos, sin = self._longer(cos, sin, hidden)
        self._tables = (cos, sin)
        if len(spans) == 1 and spans[0].start + len(hidden) <= len(cos):  # what turns the rows behind does not matter
            return cos[spans[0].start :][: len(hidden)], sin[spans[0].start :][: len(hidden)]
        positions = [position for span in spans for position in range(span.start, span.start + span.length)]
        positions += [0] * (len(hidden) - len(positions))
        index = torch.tensor(positions, device=hidden.device)
        return cos[index], sin[index]

    def _longer(self, cos: torch.Tensor, sin: torch.Tensor, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The tables with the next positions; of three rotary axes all are equal: there is audio and text only.

        Always the same number of positions at a time: a cosine may differ in its last bit with the place of its
        angle in the tensor, and a position's must not depend on which clips came before.
        """
        known = len(cos)
        positions = torch.arange(known, known + _TABLE_STEP, device=like.device)[None]
        if "mrope_section" in self._module.config.rope_parameters:
            positions = positions.expand(3, 1, _TABLE_STEP)
        more_cos, more_sin = (table[0, :, None] for table in self._module.rotary_emb(like, positions))
        half = more_sin.shape[-1] // 2
        more_sin = torch.cat((-more_sin[..., :half], more_sin[..., half:]), dim=-1)
        return (torch.cat((cos, more_cos)), torch.cat((sin, more_sin))) if known else (more_cos, more_sin)


@dataclass(frozen=True, slots=True)
class _Rows:
    """A span and how its tokens see each other, which is the same in all layers.

    Attributes:
        span: the clip's tokens.
        causal: several tokens behind an empty cache.
        mask: bool [q, start + q] for several tokens behind a cache that holds something.
    """

    span: Span
    causal: bool
    mask: torch.Tensor | None

    @classmethod
    def of(cls, span: Span, device: torch.device) -> _Rows:
        if span.length == 1 or span.start == 0:
            return cls(span, span.length > 1, None)
        shape = (span.length, span.start + span.length)
        return cls(span, False, torch.ones(shape, dtype=torch.bool, device=device).tril(span.start))


def filled(rows: torch.Tensor) -> torch.Tensor:
    """`rows` [n, width] with zero rows behind, up to a `ROW_MULTIPLE`; as they are where it would change nothing."""
    if rows.device.type != "cpu" or rows.dtype != torch.float32:
        return rows
    missing = -len(rows) % ROW_MULTIPLE
    return pad(rows, (0, 0, 0, missing)) if missing else rows
