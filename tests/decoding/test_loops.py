"""Loops: what counts as one, and what each mode does about it."""

import string

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from specdec_cli.decoding.stop import RepetitionRule
from tests.laws.cases import collect
from tests.laws.tolerance import cases
from tests.table import TableModel, certain, spelled, table_loop

RULE = RepetitionRule(8)


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
def test_what_counts_as_a_loop(text, looped):
    assert (RULE.end(text, max(len(text) - 1, 0)) is not None) is looped


def test_the_first_looping_prefix_is_found_whatever_the_block():
    ids = [1, 2, 3, 2, 3, 2, 3, 2, 3]
    assert [RULE.end(ids, start) for start in (0, 6, 7)] == [7, 7, 8]
    assert RULE.end([1, 2, 3], 0) is None
    assert RepetitionRule(0).end(ids, 0) is None


def test_the_edge_alone_breaks_out_by_sampling():
    edge = certain({"^": "a", "a": "b", "b": "a", "c": ""}, margin=3.0)
    ends = set()
    for seed in range(20):
        rounds, finished = collect(table_loop(edge, None, k=4, seed=seed, max_new_tokens=40).events())
        ends.add(finished.finish_reason)
        assert not any(round_.escalated for round_ in rounds)
        assert RULE.end(finished.token_ids[:-1], 0) is None, "only the last token may complete a loop"
    assert ends > {"loop"} or "eos" in ends, "no seed ever broke out"


def test_a_loop_that_survives_the_break_ends_the_clip():
    stubborn = certain({"^": "a", "a": "b", "b": "a"}, margin=60.0)
    _, finished = collect(table_loop(stubborn, None, k=4).events())
    assert finished.finish_reason == "loop"
    assert spelled(stubborn, finished.token_ids) == "ababab"


def test_the_edge_breaks_a_loop_that_the_cloud_confirmed():
    edge = certain({"^": "a", "a": "b", "b": "a", "c": ""}, margin=2.0)
    sure = certain({"^": "a", "a": "b", "b": "a"}, margin=60.0)
    reasons = {
        collect(table_loop(edge, sure, mode="hybrid", gate="never", k=4, seed=seed).events())[1].finish_reason
        for seed in range(20)
    }
    assert "eos" in reasons


@pytest.mark.parametrize("mode", ["lossless", "cloud"])
def test_the_clouds_own_text_is_never_bent(mode):
    looping = certain({"^": "a", "a": "b", "b": "a"}, margin=3.0)
    for k in range(1, 9):
        loop = table_loop(certain({"^": "a"}), looping, mode=mode, k=k)
        _, finished = collect(loop.events())
        assert spelled(looping, finished.token_ids) == "ababab"
        assert finished.finish_reason == "loop"


CUTS = st.one_of(st.integers(1, 8).map(lambda k: {"k": k}), st.sampled_from([{"k": "auto"}, {"defer": True}]))
ANY = settings(
    max_examples=max(24, cases()),
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
)


def cycle(letters: str, **steps: str) -> TableModel:
    """A model that repeats `letters` for ever, but for some steps."""
    following = dict(zip(letters, letters[1:] + letters[0], strict=True)) | {"^": letters[0]} | steps
    return certain(following, size=28, margin=60.0)


@ANY
@given(CUTS, st.integers(1, 8))
@example({"defer": True}, 1)  # a deferred draft of 64 equal tokens was committed whole
def test_a_loop_that_the_cloud_confirms_ends_within_three_repetitions(cut, period):
    letters = string.ascii_lowercase[:period]
    loop = table_loop(cycle(letters), cycle(letters), gate="never", max_new_tokens=128, **cut)
    rounds, finished = collect(loop.events())
    assert [round_.reason for round_ in rounds if round_.escalated] == ["loop"]
    assert finished.finish_reason == "loop"
    assert len(finished.token_ids) <= 3 * max(period, 2) + 1, spelled(cycle(letters), finished.token_ids)


@ANY
@given(CUTS, st.integers(1, 23))
def test_a_loop_of_the_clouds_corrections_ends_within_three_repetitions(cut, letters):
    """The edge repeats up to eight letters; whenever the cloud is called, it leads to the next ones, and back at last.

    The period of the text may be longer than the rule's.
    """
    units = [string.ascii_lowercase[:letters][at : at + 8] for at in range(0, letters, 8)]
    edge = cycle("".join(units) + "z", **{unit[-1]: unit[0] for unit in units})
    leads = {unit[-1]: after[0] for unit, after in zip(units, [*units[1:], "z"], strict=True)}
    cloud = cycle("".join(units) + "z", **leads)
    _, finished = collect(table_loop(edge, cloud, gate="never", max_new_tokens=1000, **cut).events())
    assert finished.finish_reason == "loop", spelled(edge, finished.token_ids)
    assert len(finished.token_ids) <= 3 * (3 * letters + 1) + 8, spelled(edge, finished.token_ids)
