"""The clip that forwards and loops are timed on."""

from tests.tools.clip import clip, lossless

__all__ = ["clip", "lossless"]
