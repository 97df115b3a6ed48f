"""Loops: what counts as one, and what each mode does about it."""

from __future__ import annotations

import random
import string
from collections.abc import Sequence
from typing import Any

import pytest

from specdec_cli.decoding.stop import LoopRule
from tests.laws.cases import collect, make_case
from tests.table import TableModel, certain, spelled, table_loop


def ends_in_loop(ids: Sequence[int], period: int, repeats: int) -> bool:
    """Whether the whole text ends in a loop."""
    return LoopRule(period, repeats).end(ids, len(ids) - 1) is not None


def loop_end(ids: Sequence[int], start: int, period: int, repeats: int) -> int | None:
    """The shortest looping prefix beyond `start`."""
    return LoopRule(period, repeats).end(ids, start)


@pytest.mark.parametrize(
    ("text", "looped"),
    [
        ("aaaa", True),
        ("aaa", False),  # one token needs four
        ("abababab", True),
        ("ababab", True),
        ("abab", False),
        ("xabcabcabc", True),
        ("abcabcab", False),
        ("abcdefghabcdefghabcdefgh", True),  # period 8
        ("abcdefghiabcdefghiabcdefghi", False),  # period 9
        ("abcabcabcx", False),  # not at the tail
        ("", False),
        ("a", False),
    ],
)
def test_what_counts_as_a_loop(text: str, looped: bool) -> None:
    assert ends_in_loop([ord(c) for c in text], 8, 3) is looped


def test_every_loop_is_found_by_definition() -> None:
    rng = random.Random(0)
    for _ in range(3000):
        ids = [rng.randrange(3) for _ in range(rng.randrange(30))]
        repeats = rng.choice((2, 3, 4))
        expected = False
        for unit in range(1, 9):
            times = max(repeats, 4) if unit == 1 else repeats
            tail = ids[len(ids) - unit * times :]
            expected |= len(ids) >= unit * times and tail == tail[:unit] * times
        assert ends_in_loop(ids, 8, repeats) is expected


def test_the_first_looping_prefix_is_found_whatever_the_block() -> None:
    ids = [1, 2, 3, 2, 3, 2, 3, 2, 3]
    assert loop_end(ids, 0, 8, 3) == 7
    assert loop_end(ids, 6, 8, 3) == 7
    assert loop_end(ids, 7, 8, 3) == 8
    assert loop_end(ids, 0, 0, 3) is None
    assert loop_end([1, 2, 3], 0, 8, 3) is None


def test_the_edge_alone_breaks_out_by_sampling() -> None:
    edge = certain({"^": "a", "a": "b", "b": "a", "c": ""}, margin=3.0)
    ends = set()
    for seed in range(20):
        rounds, finished = collect(table_loop(edge, None, k=4, seed=seed, max_new_tokens=40).run())
        ends.add(finished.finish_reason)
        assert not any(round_.escalated for round_ in rounds)
        assert loop_end(finished.token_ids[:-1], 0, 8, 3) is None, "only the last token may complete a loop"
    assert ends > {"loop"} or "eos" in ends, "no seed ever broke out"


def test_a_loop_that_survives_the_break_ends_the_clip() -> None:
    stubborn = certain({"^": "a", "a": "b", "b": "a"}, margin=60.0)
    _, finished = collect(table_loop(stubborn, None, k=4).run())
    assert finished.finish_reason == "loop"
    assert spelled(stubborn, finished.token_ids) == "ababab"


def test_a_loop_forces_one_escalation_and_only_one() -> None:
    """The cloud loops as well: it is asked once, then the edge tries to break out, then the clip ends."""
    looping = {"^": "a", "a": "b", "b": "a"}
    edge, sure = certain(looping, margin=60.0), certain(looping, margin=60.0)
    rounds, finished = collect(table_loop(edge, sure, mode="hybrid", gate="never", k=4).run())
    assert [round_.reason for round_ in rounds if round_.escalated] == ["loop"]
    assert finished.finish_reason == "loop"


def test_the_edge_breaks_a_loop_that_the_cloud_confirmed() -> None:
    edge = certain({"^": "a", "a": "b", "b": "a", "c": ""}, margin=2.0)
    sure = certain({"^": "a", "a": "b", "b": "a"}, margin=60.0)
    reasons = {
        collect(table_loop(edge, sure, mode="hybrid", gate="never", k=4, seed=seed).run())[1].finish_reason
        for seed in range(20)
    }
    assert "eos" in reasons


@pytest.mark.parametrize("mode", ["lossless", "cloud"])
def test_the_clouds_own_text_is_never_bent(mode: str) -> None:
    looping = certain({"^": "a", "a": "b", "b": "a"}, margin=3.0)
    for k in range(1, 9):
        loop = table_loop(certain({"^": "a"}), looping, mode="lossless", k=k)
        _, finished = collect(loop.run())
        assert spelled(looping, finished.token_ids) == "ababab"
        assert finished.finish_reason == "loop"


CUTS = [*({"k": k} for k in (*range(1, 9), "auto")), {"defer": True}]


def cycle(letters: str, **steps: str) -> TableModel:
    """A model that repeats `letters` for ever, but for some steps."""
    following = dict(zip(letters, letters[1:] + letters[0], strict=True)) | {"^": letters[0]} | steps
    return certain(following, size=28, margin=60.0)


@pytest.mark.parametrize("cut", CUTS, ids=str)
@pytest.mark.parametrize("period", range(1, 9))
def test_a_loop_that_the_cloud_confirms_ends_within_three_repetitions(period: int, cut: dict[str, Any]) -> None:
    """A deferred draft of 64 equal tokens was committed whole."""
    letters = string.ascii_lowercase[:period]
    loop = table_loop(cycle(letters), cycle(letters), gate="never", max_new_tokens=128, **cut)
    rounds, finished = collect(loop.run())
    assert [round_.reason for round_ in rounds if round_.escalated] == ["loop"]
    assert finished.finish_reason == "loop"
    assert len(finished.token_ids) <= 3 * max(period, 2) + 1, spelled(cycle(letters), finished.token_ids)


@pytest.mark.parametrize("cut", CUTS, ids=str)
@pytest.mark.parametrize("letters", [*range(1, 9), 12, 16, 23])
def test_a_loop_of_the_clouds_corrections_ends_within_three_repetitions(letters: int, cut: dict[str, Any]) -> None:
    """The edge repeats up to eight letters; whenever the cloud is called, it leads to the next ones, and back at last.

    The period of the text may be longer than the rule's.
    """
    units = [string.ascii_lowercase[:letters][at : at + 8] for at in range(0, letters, 8)]
    edge = cycle("".join(units) + "z", **{unit[-1]: unit[0] for unit in units})
    leads = {unit[-1]: after[0] for unit, after in zip(units, [*units[1:], "z"], strict=True)}
    cloud = cycle("".join(units) + "z", **leads)
    _, finished = collect(table_loop(edge, cloud, gate="never", max_new_tokens=1000, **cut).run())
    text = finished.token_ids
    assert finished.finish_reason == "loop", spelled(edge, text)
    assert len(text) <= 3 * (3 * letters + 1) + 8, spelled(edge, text)


def test_detection_can_be_turned_off() -> None:
    looping = certain({"^": "a", "a": "a"})
    _, finished = collect(table_loop(looping, None, loop_period=0, max_new_tokens=20).run())
    assert finished.finish_reason == "max_tokens"
    assert len(finished.token_ids) == 20


def test_random_models_loop_and_are_handled() -> None:
    """Guards the laws against never meeting a loop."""
    ended, cases = 0, iter(range(92_000, 92_060))
    while ended < 6:
        number = next(cases)
        case = make_case(number, mode="lossless", loop_period=8, loop_repeats=2, repetition_penalty=1.0,
                         no_repeat_ngram=0, max_new_tokens=24)  # fmt: skip
        _, finished = case.run()
        if finished.finish_reason == "loop":
            ended += 1
            assert ends_in_loop(finished.token_ids, 8, 2)
