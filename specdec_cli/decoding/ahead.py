"""Drafting ahead: what the edge does while the cloud verifies a block elsewhere.

It supposes that the block will be accepted whole, guesses the cloud's token behind it, and goes on from there block by
block as the coming rounds would, up to and including the first block that would go to the cloud itself: from there
on the edge can wait for the next flight just as well. Nothing is decided here: no random generator moves, and the
rounds that follow use of the result what turns out to fit the text.
"""

from __future__ import annotations

from collections.abc import Sequence

from specdec_cli.decoding.draft import Drafts
from specdec_cli.decoding.gate import Gate, Judge
from specdec_cli.decoding.lookahead import Flight
from specdec_cli.decoding.loops import LoopEnd
from specdec_cli.decoding.options import DecodingOptions
from specdec_cli.models.session import Steps


def draft_ahead(
    drafter: Drafts,
    gate: Gate,
    options: DecodingOptions,
    text: Sequence[int],
    flight: Flight,
    loop_end: LoopEnd,
) -> Steps[None]:
    """Drafts until the flight lands, or until there is nothing more to draft.

    Args:
        drafter: the edge.
        gate: of the run.
        options: of the run.
        text: the committed text and the block under way.
        flight: its verification.
        loop_end: where a text that grew from a given length runs into a loop, behind which nothing is foreseeable.
    """
    written = list(text)
    if options.max_new_tokens - len(written) < 2:  # room for the cloud's token alone
        return
    drafted = yield from drafter.draft_ahead(written, 1, flight, guess=True)
    while drafted is not None:
        written += drafted.ids
        size = min(options.most_drafted, options.max_new_tokens - len(written))
        if size < 1 or written[-1] in drafter.stop_ids:
            return
        judge = Judge(gate, len(written))
        block = yield from drafter.draft_ahead(written, size, flight, judge.stop)
        if block is None or gate.name == "random" or judge.decide(block).escalate:
            return
        drafted = block
        if loop_end([*written, *block.ids], len(written)) is not None:
            return
