"""What a model takes of memory, by its configuration: before its weights are downloaded or read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import psutil
import torch

from specdec_cli.config import ModelConfig
from specdec_cli.models.checkpoint import Checkpoint
from specdec_cli.models.download import size
from specdec_cli.models.families import Family
from specdec_cli.models.packed import BITS, packable, packed_bytes

_ROOM: Final = 1.1
"""Memory of a model over that of its weights: cache, activations and the library take about a tenth."""


@dataclass(frozen=True, slots=True)
class Needs:
    """Memory of one model, in bytes."""

    config: ModelConfig
    family: str
    parameters: int
    dtype: str  # of the weights that are not quantised
    device: str
    weights: Mapping[str | None, int]  # in memory by `quantization` (None, "int8", "int4"), as far as the device has it
    free: int  # available on the device now
    total: int

    @property
    def bytes(self) -> int:
        """With cache, activations and the library."""
        return round(_ROOM * self.weights[self.config.quantization])

    @property
    def fits(self) -> bool:
        """Whether the device has room for it now; a `device_map` spreads it over all devices."""
        return self.bytes <= self.free or self.config.device_map is not None

    def advice(self, room: int, role: str = "") -> str:
        """What would fit instead into so many bytes; `role`: begins the names of settings."""
        for name, weights in self.weights.items():
            if name and (takes := round(_ROOM * weights)) <= room:
                return f"{role}quantization: {name} takes {size(takes)}"
        memory = psutil.virtual_memory().available
        if self.device.startswith("cuda") and self.bytes <= room + memory:
            return f"{role}device_map: auto spreads it over the GPU and {size(memory)} of main memory"
        return "use a smaller model, or a cloud at an address (cloud.url)"

    def __str__(self) -> str:
        kind = "/".join(filter(None, (self.config.quantization, self.dtype)))
        takes = f"{size(self.bytes)} of the {size(self.free)} free on {self.device}"
        return (
            f"{self.config.label} · {self.family} · {self.parameters / 1e6:,.0f} million parameters in {kind} · {takes}"
        )


def outline(family: Family, config: Any) -> Any:
    """The module of a configuration on the meta device: names and shapes without weights."""
    made = family.module_class()
    with torch.device("meta"):
        return made.from_config(config) if family.name == "generic" else made(config)


def needs(checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype) -> Needs:
    """What a model takes on a device."""
    module, unused = outline(checkpoint.family, checkpoint.module_config), checkpoint.family.unused
    used = [part for name, part in module.named_parameters() if not name.startswith(unused)]
    free, total = _memory(device)
    whole = sum(part.numel() for part in used) * dtype.itemsize
    sizes: dict[str | None, int] = {None: whole}
    embedding = module.get_input_embeddings().weight
    for name, bits in BITS.items():
        layers = [part for _, part in packable(module)]
        dropped = sum(part.weight.numel() for part in layers if part.weight is not embedding) * dtype.itemsize
        sizes[name] = whole - dropped + sum(packed_bytes(part, bits, dtype) for part in layers)
    return Needs(
        config=checkpoint.config,
        family=checkpoint.family.name,
        parameters=sum(part.numel() for part in used),
        dtype=str(dtype).removeprefix("torch."),
        device=str(device),
        weights=sizes,
        free=free,
        total=total,
    )


def _memory(device: torch.device) -> tuple[int, int]:
    """Bytes that are free, and all of them."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)
    memory = psutil.virtual_memory()
    return int(memory.available), int(memory.total)
