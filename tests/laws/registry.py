"""All laws of one clip by name. A new law is a row here, which says in which ways of `test_laws` it runs."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Literal, NamedTuple

from tests.laws import occur
from tests.laws.cases import Case
from tests.laws.checks import (
    Check,
    closing_law,
    cloud_law,
    edge_law,
    guess_law,
    reference_law,
    sampled_edge_law,
)
from tests.laws.makers import (
    auto_case,
    closing,
    closing_mixed_case,
    cloud_case,
    deferred_case,
    edge_case,
    ends_case,
    gated_case,
    guess_case,
    lossless_case,
    mixed_case,
    packed_case,
    sampled_case,
    sampled_edge_case,
    sampled_hybrid_case,
    suggested_case,
)

Way = Literal["unread", "heard"]
EVERY: Final[tuple[Way, ...]] = ("unread", "heard")


class Law(NamedTuple):
    """What a law is about, and what it says."""

    make: Callable[[int], Case]  # the case of a number
    check: Check
    first: int  # number of the first case that is run plainly
    share: float  # of `SPECDEC_CASES`
    must_occur: Callable[[Sequence[Case]], None] | None = None
    ways: tuple[Way, ...] = ()  # beside the plain one


LAWS: Final[dict[str, Law]] = {
    # nothing is verified: the text is that of the edge's `generate()`
    "edge": Law(edge_case, edge_law, 0, 0.75, ways=EVERY),
    "edge, sampled": Law(sampled_edge_case, sampled_edge_law, 11_000, 0.25, ways=EVERY),
    "edge, packed": Law(packed_case, edge_law, 12_000, 0.1),
    # everything is verified, or the cloud is alone: the text is that of the cloud's `generate()`
    "cloud": Law(lossless_case, cloud_law, 20_000, 1.0, occur.lengths_by_cost, ways=EVERY),
    "cloud, alone": Law(cloud_case, cloud_law, 30_000, 0.1, ways=("heard",)),
    # every round is that of a reference without caches
    "reference": Law(gated_case, reference_law, 40_040, 0.42, occur.verdicts_of_every_kind, ways=EVERY),
    "reference, sampled": Law(sampled_hybrid_case, reference_law, 50_000, 0.16),
    "reference, k auto": Law(auto_case, reference_law, 55_000, 0.12, occur.lengths_that_pay),
    "reference, everything": Law(mixed_case, reference_law, 57_500, 0.85, occur.everything, ways=EVERY),
    "reference, deferred": Law(deferred_case, reference_law, 70_000, 0.16, occur.clips_asleep_and_awake),
    # the same random numbers on cache-free distributions give the same rounds
    "sampling": Law(sampled_case, reference_law, 140_000, 0.3, ways=EVERY),
    # guesses save forwards where they are right, and change no text whatever they are
    "guess": Law(guess_case, guess_law, 140_000, 0.5, occur.guesses_that_stand_and_fall, ways=("heard",)),
    # models whose end-of-text ids differ: each bans its own before `min_new_tokens`, and ends at its own
    "ends, edge": Law(partial(ends_case, gate="never"), edge_law, 420_000, 0.15),
    "ends, cloud": Law(partial(ends_case, gate="always"), cloud_law, 410_000, 0.15),
    "ends, reference": Law(ends_case, reference_law, 430_000, 0.15),
    # a setting that is left open is as the checkpoint suggests, of each model its own; one that is given wins
    "suggested, edge": Law(partial(suggested_case, mode="edge"), edge_law, 96_000, 0.1, occur.suggestions_that_count),
    "suggested, cloud": Law(
        partial(suggested_case, mode="lossless"), cloud_law, 96_000, 0.1, occur.suggestions_that_count
    ),
    "suggested, reference": Law(partial(suggested_case, mode="hybrid"), reference_law, 96_200, 0.1),
    # a caption ends where it stops describing
    "closing, edge": Law(
        lambda number: closing(edge_case(number), mode="edge"), closing_law, 0, 0.2, occur.captions_that_close
    ),
    "closing, cloud": Law(
        lambda number: closing(lossless_case(number)), closing_law, 20_000, 0.3, occur.captions_that_close
    ),
    "closing, reference": Law(closing_mixed_case, reference_law, 57_500, 0.3, occur.faults_of_texts),
}
