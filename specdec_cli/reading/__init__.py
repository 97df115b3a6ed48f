"""Captions as text: where they stop describing, and what makes them no description."""

from specdec_cli.reading.closing import caption_of, description_end
from specdec_cli.reading.faults import fault_of, flags_of, language_of, refuses

__all__ = ["caption_of", "description_end", "fault_of", "flags_of", "language_of", "refuses"]
