"""The classes that a caption names: a file of words, and how sentences are read with it."""

from specdec_cli.labels.lexicon import Lexicon

__all__ = ["Lexicon"]
