"""What a caption says, as classes: a file of words, and how sentences are read with it."""

from specdec_cli.labels.lexicon import Lexicon

__all__ = ["Lexicon"]
