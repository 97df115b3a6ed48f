"""Numbers after a message: a clip's tensors, and the distributions that a draft was drawn from. Little-endian."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import torch

from specdec_cli.cloud.protocol import MalformedError, SentAs, TensorInfo

_DTYPES: Final[dict[SentAs, str]] = {"float16": "<f2", "bool": "|b1", "uint8": "|u1", "int32": "<i4", "int64": "<i8"}


def pack_tensors(tensors: Mapping[str, torch.Tensor]) -> tuple[list[TensorInfo], bytes]:
    """A clip's tensors: floats in float16, exact to about a thousandth; integers in the smallest type that fits."""
    infos, parts = [], []
    for name, tensor in tensors.items():
        values = tensor.detach().cpu()
        dtype = _sent_as(values)
        if dtype == "float16":
            values = values.to(torch.float16)
        infos.append(TensorInfo(name=name, shape=list(values.shape), dtype=dtype))
        parts.append(np.ascontiguousarray(values.numpy(), dtype=_DTYPES[dtype]).tobytes())
    return infos, b"".join(parts)


def _sent_as(values: torch.Tensor) -> SentAs:
    if values.is_floating_point():
        return "float16"
    if values.dtype == torch.bool:
        return "bool"
    low, high = int(values.min()), int(values.max())
    return "uint8" if low >= 0 and high < 1 << 8 else "int32" if low >= -(1 << 31) and high < 1 << 31 else "int64"


def unpack_tensors(infos: Sequence[TensorInfo], data: memoryview) -> tuple[dict[str, torch.Tensor], memoryview]:
    """The tensors, floats as float32 and integers as int64, and the bytes after them.

    Raises:
        MalformedError: too few bytes, a name that stands twice, or a value that is not finite.
    """
    tensors: dict[str, torch.Tensor] = {}
    for info in infos:
        if len(data) < info.bytes or info.name in tensors:
            raise MalformedError(f"{info.bytes} bytes of a tensor were announced, and {len(data)} came")
        values = np.frombuffer(data[: info.bytes], dtype=_DTYPES[info.dtype]).reshape(info.shape)
        data = data[info.bytes :]
        if info.dtype == "float16" and not np.isfinite(values).all():
            raise MalformedError("the features are not finite")
        if info.dtype == "bool":
            tensors[info.name] = torch.from_numpy(values.view(np.uint8) != 0)
        else:
            tensors[info.name] = torch.from_numpy(values.astype(np.float32 if info.dtype == "float16" else np.int64))
    return tensors, data


def pack_rows(rows: torch.Tensor) -> tuple[list[int], bytes]:
    """Distributions [m, vocab]: how many tokens each gives a chance, and for each row their ids (uint32), then their
    probabilities (float32), which are exact: the rule divides by them and subtracts them."""
    counts: list[int] = []
    parts: list[bytes] = []
    for row in rows.detach().to("cpu", torch.float32).numpy():
        (ids,) = row.nonzero()
        counts.append(len(ids))
        parts += [ids.astype("<u4").tobytes(), row[ids].astype("<f4").tobytes()]
    return counts, b"".join(parts)


def unpack_rows(data: memoryview, counts: Sequence[int], draft: Sequence[int], vocab_size: int) -> torch.Tensor:
    """The distributions [m, vocab] that the tokens of a draft were drawn from.

    Raises:
        MalformedError: another number of bytes, an id out of range, no distribution, or one that cannot have given its
            token.
    """
    if any(not 1 <= count <= vocab_size for count in counts) or len(data) != 8 * sum(counts):
        raise MalformedError("the draft's distributions are not as long as announced")
    rows = np.zeros((len(counts), vocab_size), dtype=np.float32)
    at = 0
    for row, count, token in zip(rows, counts, draft, strict=True):
        ids = np.frombuffer(data[at : at + 4 * count], dtype="<u4")
        values = np.frombuffer(data[at + 4 * count : at + 8 * count], dtype="<f4")
        at += 8 * count
        if int(ids.max()) >= vocab_size or not bool(((values > 0) & (values <= 1)).all()):
            raise MalformedError("the draft's distributions hold a value that is no probability")
        row[ids] = values
        if not 0.99 < float(row.sum()) < 1.01:
            raise MalformedError("a distribution of the draft does not add up to 1")
        if row[token] == 0:
            raise MalformedError("a distribution of the draft gives the drafted token no chance")
    return torch.from_numpy(rows)
