"""Prosody as numbers: F0, level, rate and pauses of samples. Nothing here imports torch."""

from specdec_cli.prosody.measure import measure

__all__ = ["measure"]
