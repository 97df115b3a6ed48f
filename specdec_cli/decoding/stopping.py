"""Stop rules. They look at committed text only, at every prefix of it, and name the shortest one that ends it.

Because every prefix is looked at, the text does not depend on how it was cut into blocks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from specdec_cli.decoding.options import DecodingOptions
from specdec_cli.types import FinishReason

# A full stop ends a sentence unless it stands in a number or an initialism ("3.5", "e.g."); the ideographic ones
# always do. Runs ("?!", "……") and closing quotes count once, with the sentence they close.
_SENTENCE_END = re.compile(r"(?:[。！？!?…]|(?<=[^\W\d_]{2})\.|(?<=\d)\.(?=\s|$)|(?<=[)\]\"”’])\.)+[”’\"'）)\]]*")


def count_sentences(text: str) -> int:
    """Sentences that end in `text`, in Chinese or Latin script. Text behind the last end does not count."""
    return sum(1 for _ in _SENTENCE_END.finditer(text))


class StopRules:
    """The rules of one run.

    Args:
        options: budget, sentences and stop strings.
        eos_ids: ids that end a text.
        decode: token ids to text, special tokens left out.
    """

    def __init__(
        self, options: DecodingOptions, eos_ids: Collection[int], decode: Callable[[Sequence[int]], str]
    ) -> None:
        self._options = options
        self._eos_ids = frozenset(eos_ids)
        self._decode = decode
        self._reads_text = options.sentences is not None or bool(options.stop_strings)

    def first_stop(self, text: Sequence[int], start: int) -> tuple[int, FinishReason] | None:
        """The shortest prefix of `text`, longer than `start`, that ends the text, and why; None to go on.

        Args:
            text: committed token ids, a new block at the end.
            start: length that was looked at before.
        """
        for length in range(start + 1, len(text) + 1):
            reason = self._reason(text[:length])
            if reason is not None:
                return length, reason
        return None

    def _reason(self, text: Sequence[int]) -> FinishReason | None:
        if text[-1] in self._eos_ids:
            return "eos"
        if self._reads_text:
            written = self._decode(text)
            if any(stop in written for stop in self._options.stop_strings):
                return "stop_string"
            if self._options.sentences is not None and count_sentences(written) >= self._options.sentences:
                return "sentences"
        if len(text) >= self._options.max_new_tokens:
            return "max_tokens"
        return None
