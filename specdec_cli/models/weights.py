"""Which weights are these? A fingerprint of a checkpoint's files, so that new ones under an old name are noticed."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_PIECE: Final = 1024
"""Bytes read of each tensor, from its middle: gigabytes are told apart by reading a few megabytes, and training moves
all of a tensor's numbers."""
_DIGITS: Final = 32


def fingerprint(shards: Sequence[Path]) -> str:
    """Equal for equal safetensors files, and different where a tensor was added, renamed or trained.

    Args:
        shards: the files, in order; their names do not count.

    Raises:
        OSError: a file cannot be read.
    """
    digest = hashlib.sha256()
    for shard in shards:
        with shard.open("rb") as file:
            # the safetensors format: the length of the header, the header as JSON, then the tensors end to end
            (length,) = struct.unpack("<Q", file.read(8))
            header = file.read(length)
            digest.update(header)
            for start, end in _places(header):
                file.seek(8 + length + max(start, (start + end - _PIECE) // 2))
                digest.update(file.read(min(_PIECE, end - start)))
    return f"sha256:{digest.hexdigest()[:_DIGITS]}"


def _places(header: bytes) -> list[tuple[int, int]]:
    """First byte and the one after the last of every tensor, from the end of the header on, in the file's order."""
    tensors = {name: entry for name, entry in json.loads(header).items() if name != "__metadata__"}
    return sorted((int(start), int(end)) for start, end in (entry["data_offsets"] for entry in tensors.values()))
