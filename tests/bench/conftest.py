"""The clip that forwards and loops are timed on."""

from tests.bench.clip import clip, lossless

__all__ = ["clip", "lossless"]
