"""Captions as text: where they stop describing, and which do not describe a voice."""

from specdec_cli.reading.captions import (
    CaptionRules,
    caption_of,
    description_end,
    fault_of,
    flags_of,
    language_of,
    only_guesses,
    settled,
)

__all__ = [
    "CaptionRules",
    "caption_of",
    "description_end",
    "fault_of",
    "flags_of",
    "language_of",
    "only_guesses",
    "settled",
]
