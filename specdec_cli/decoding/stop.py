"""Where a text ends: stop rules, and repetitions.

Both read every prefix of the committed text, and find the shortest one that ends it, so that the text does not depend
on how it was cut into blocks.

A text that stops describing ends with the token that shows this (`closing`), not at the end of the description, which
may be rounds ago. Tokens, rounds and totals stay as generated; the caption leaves the rest out, as it does a stop
string. `reading.captions` finds the same place in every continuation of that text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from specdec_cli.config.decoding_schema import DecodingConfig
from specdec_cli.decoding.gate import GateState
from specdec_cli.prompts import Language
from specdec_cli.reading import description_end, fault_of
from specdec_cli.types import FinishReason, Reason

# A full stop ends a sentence unless it is in a number or an initialism ("3.5", "e.g."); the ideographic ones
# always do. Runs ("?!", "……") and closing quotes count once, with the sentence they close.
_SENTENCE_END: Final = re.compile(
    r"(?:[。！？!?…]|(?<=[^\W\d_]{2})\.|(?<=\d)\.(?=\s|$)|(?<=[)\]\"”’])\.)+[”’\"'）)\]]*"
)
_REPEATS: Final = 3  # of a run at the end of the text: lists and rhymes say things twice
_MIN_SINGLES: Final = 4  # "哈哈哈" is speech; one token four times in a row is a repetition


def count_sentences(text: str) -> int:
    """Sentences that end in `text`, in Chinese or Latin script. Text after the last end does not count."""
    return sum(1 for _ in _SENTENCE_END.finditer(text))


@dataclass(frozen=True, eq=False)
class StopRules:
    """The stop rules of a clip. With a `language`, the text should be in it, and ends where it stops describing."""

    settings: DecodingConfig
    stop_ids: Collection[int]
    decode: Callable[[Sequence[int]], str]  # token ids to text, special tokens left out
    language: Language | None = None
    kept_ids: Collection[int] = ()  # ids of the drafting model that end a kept draft; none: `stop_ids` do

    @cached_property
    def reads_text(self) -> bool:
        """Whether the text may end before a stop id and the length limit."""
        return bool(self.settings.stop_strings) or self.settings.sentences is not None or self.language is not None

    def first_stop(self, text_ids: Sequence[int], start: int, *, kept: bool = False) -> tuple[int, FinishReason] | None:
        """Length of the shortest prefix of `text_ids`, longer than `start`, that ends it, and why; None to go on.

        `kept`: the tokens after `start` are a draft that is not verified.
        """
        most, stop_ids = self.settings.max_new_tokens, (kept and self.kept_ids) or self.stop_ids
        for length in range(start + 1, len(text_ids) + 1):
            if text_ids[length - 1] in stop_ids:
                return length, "eos"
            if self.reads_text and (reason := self._reason(self.decode(text_ids[:length]))):
                return length, reason
            if length >= most:
                return length, "max_tokens"
        return None

    def _reason(self, written: str) -> FinishReason | None:
        strings, sentences = self.settings.stop_strings, self.settings.sentences
        if any(stop in written for stop in strings):
            return "stop_string"
        if sentences is not None and count_sentences(written) >= sentences:
            return "sentences"
        return "closing" if self.language is not None and description_end(written) is not None else None

    def fault(self, text_ids: Sequence[int], block_ids: Sequence[int]) -> Reason | None:
        """The fault that `block_ids` add to a text: `refusal` or `language`; None: none, or the text has one."""
        if self.language is None or fault_of(self.decode(text_ids), self.language) is not None:
            return None
        return fault_of(self.decode([*text_ids, *block_ids]), self.language)


@dataclass(frozen=True, slots=True)
class RepetitionRule:
    """What counts as a repetition: a short unit three times in a row at the end of a text, or one token four times."""

    period: int  # longest unit, tokens; 0: no detection

    def end(self, ids: Sequence[int], start: int) -> int | None:
        """Length of the shortest prefix of `ids`, longer than `start`, that ends in a repetition; None: none does."""
        if self.period < 1:
            return None
        return next((end for end in range(start + 1, len(ids) + 1) if self._repeats(ids, end)), None)

    def _repeats(self, ids: Sequence[int], end: int) -> bool:
        """Whether the first `end` of `ids` end in a repetition."""
        if ids[end - 1] not in ids[max(end - 1 - self.period, 0) : end - 1]:
            return False  # nearly always: the last token is not among those of a period before it
        for unit in range(1, self.period + 1):
            start = end - unit * (_MIN_SINGLES if unit == 1 else _REPEATS)
            if start >= 0 and ids[start + unit : end] == ids[start : end - unit]:
                return True
        return False


class TextEnd:
    """The end of one clip's text: by its stop rules, or by a repetition that no model leaves."""

    def __init__(self, rules: StopRules) -> None:
        self._rules = rules
        self._left = 0  # repetitions that were left, or that the edge is about to leave
        self.repetition_was_verified = False  # whether the cloud has confirmed the repetition at the end of the text

    @property
    def repetition_rule(self) -> RepetitionRule:
        """What counts as a repetition: after those that were left, longer units, too."""
        return RepetitionRule(self._rules.settings.loop_period * max(_REPEATS * self._left, 1))

    def repeats(self, text_ids: Sequence[int], start: int) -> bool:
        """Whether a prefix of `text_ids`, longer than `start`, ends in a repetition."""
        return self.repetition_rule.end(text_ids, start) is not None

    def reached(self, text_ids: Sequence[int], kept: bool, state: GateState) -> bool:
        """Whether the text ends with the last token of the drafted block so far, whose evidence `state` holds.

        `kept`: the draft may be kept without a verdict.
        """
        drafted = (*text_ids, *(token.id for token in state.evidence))
        return self._rules.first_stop(drafted, len(drafted) - 1, kept=kept) is not None

    def leave(self) -> None:
        """Counts a repetition that the edge may leave."""
        self._left += 1

    def find(
        self, text_ids: Sequence[int], start: int, *, verified: bool, may_leave: bool
    ) -> tuple[int, FinishReason | None]:
        """How many of `text_ids` are committed, at least one after `start`, and why the text ends there, if it does.

        A repetition that the cloud has `verified` does not end the text at once if the edge `may_leave` it.
        """
        end, finish = self._rules.first_stop(text_ids, start, kept=not verified) or (len(text_ids), None)
        repeated = self.repetition_rule.end(text_ids[:end], start)
        if repeated is None or (finish and repeated == end):
            self.repetition_was_verified = False
            return end, finish
        if may_leave and verified and not self.repetition_was_verified:
            self.repetition_was_verified = True
            self._left += 1
            return repeated, None
        return repeated, "loop"
