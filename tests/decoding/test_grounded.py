"""The loop beside a sound: what contradicts it is verified, and what fits it stands against the cloud."""

from collections.abc import Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from specdec_cli.decoding.block import Block, Draft, Verdict
from specdec_cli.decoding.loop import Loop
from specdec_cli.labels import Lexicon
from specdec_cli.labels.grounding import Grounding
from specdec_cli.types import Finished, Measured
from tests.cloud.test_vllm_rules import answered
from tests.laws.cases import collect
from tests.table import Letters, TableModel, certain, table_loop

SLOW = Measured(rate_per_s=2.0, pause_share=0.0)
SPOKEN = {"a": "He speaks", "b": " at a fast", "c": " at a slow", "d": " pace", "e": ", with few pauses", "f": "."}
WAYS: list[dict[str, Any]] = [{"k": 2}, {"defer": True}]


def saying(chain: str) -> TableModel:
    """A model that says the pieces of `chain`, and goes on with " pace" after either class."""
    model = certain({"b": "d", "c": "d", **dict(pairwise(["^", *chain, ""]))})
    model.processor.text = lambda ids: "".join(SPOKEN.get(model.processor.token_text(id_), "") for id_ in ids)
    return model


def loop_of(edge: str, cloud: str, measured: Measured = SLOW, *, arbitrates: bool = True, **given: Any) -> Loop:
    """A loop of a gate that escalates nothing."""
    drafting = saying(edge)
    sound = Grounding(Lexicon.load(), "en", drafting.processor.text, str.strip, lambda: measured, arbitrates)
    return table_loop(drafting, saying(cloud), sound=sound, **{"gate": "never"} | given)


def ran(edge: str, cloud: str, measured: Measured = SLOW, **given: Any) -> tuple[list[Block], Finished, str]:
    """Rounds, end, and the letters of the text."""
    rounds, finished = collect(loop_of(edge, cloud, measured, **given).run())
    return rounds, finished, Letters(8).decode(finished.token_ids)


@pytest.mark.parametrize("way", WAYS)
def test_a_contradiction_is_verified_whatever_the_gate_says(way):
    rounds, _, text = ran("abdef", "acdef", **way)
    assert text == "acdef"
    assert [round_.reason for round_ in rounds if round_.reason] == ["sound"]
    assert rounds[0].reason == "sound"
    for given in ({"grounded": False}, {"measured": Measured()}):
        rounds, _, text = ran("abdef", "acdef", **way | given)
        assert (text, {round_.reason for round_ in rounds}) == ("abdef", {None})


@pytest.mark.parametrize("way", WAYS)
def test_what_the_cloud_confirms_is_not_verified_again(way):
    rounds, _, text = ran("abdef", "abdef", **way)
    assert text == "abdef"
    assert [round_.reason for round_ in rounds if round_.reason] == ["sound"]


def test_with_blocks_a_claim_is_verified_in_the_block_that_completes_it():
    rounds, _, _ = ran("abdef", "abdef", Measured(pause_share=0.4), k=1)
    assert [round_.draft_ids for round_ in rounds if round_.reason == "sound"] == [(6,)]  # "few pauses"


@pytest.mark.parametrize("way", WAYS)
def test_a_class_that_fits_stands_where_the_clouds_does_not(way):
    given = {"gate": "always", **way}
    rounds, finished, text = ran("acdef", "abdef", **given)
    assert text == "acdef"
    assert [round_.verdict.stood for round_ in rounds if round_.verdict and round_.verdict.stood] == [(1,)]
    first = rounds[0]
    assert first.source[:2] == ("accepted", "accepted")
    assert first.accepted == len(first.draft_ids)
    assert finished.cloud.forwards <= len(finished.token_ids)
    assert ran("acdef", "abdef", **given, arbitrates=False)[2] == "abdef"
    assert ran("acdef", "abdef", Measured(rate_per_s=4.0), **given)[2] == "abdef"  # both fit
    assert ran("acdef", "abdef", Measured(), **given)[2] == "abdef"
    assert ran("abdef", "acdef", **given)[2] == "acdef"  # the drafted one is the one that does not
    assert ran("acdef", "abdef", **way, mode="lossless")[2] == "abdef"


def test_what_follows_a_token_that_stands_is_verified_behind_it():
    rounds, _, text = ran("acdfe", "abdef", gate="always", defer=True)
    assert (rounds[0].source, rounds[0].accepted) == (("accepted", "accepted", "accepted", "corrected"), 3)
    assert text.startswith("acde")


def test_figures_of_both_verdicts_add_up():
    before = Verdict(1, 9, near_ties=1, ms=2.0, prefilled=True, network_ms=1.0, bytes_up=10, bytes_down=1)
    after = Verdict(2, 8, (7,), near_ties=2, ms=3.0, network_ms=2.0, bytes_up=20, bytes_down=2)
    whole = before.followed_by(after)
    assert whole == Verdict(4, 8, (7,), 3, 5.0, True, 3.0, 30, 3, None, (1,))
    assert whole.followed_by(Verdict(0, 6)).stood == (1, 4)


def test_a_vllm_cloud_is_asked_again_behind_the_token_that_stands(monkeypatch):
    logits = torch.full((7, 70), -5.0)
    table = {"": "a", "a": "b", "b": "d", "c": "d", "d": "e", "e": "f", "f": ""}
    vocab = Letters(8).get_vocab()
    for row, letter in enumerate(["", *"acdef", ""]):
        logits[row, vocab[table.get(letter, "") or "<eos>"]] = 5.0
    verifier = answered(logits)
    asked = list[tuple[int, ...]]()

    def scored(ids: tuple[int, ...], drafted: int, *rest: Any) -> Any:
        asked.append(ids)
        start = len(ids) - drafted
        return answered(logits[start : start + drafted + 1])._requests.scored(ids[start:], drafted, *rest)

    monkeypatch.setattr(verifier._requests, "scored", scored)
    loop = loop_of("acdef", "abdef", gate="always", defer=True)
    loop.verifier = SimpleNamespace(
        verify=verifier.verify, work=loop.verifier.work, is_remote=True, scores=None, close=lambda: None
    )
    draft = Draft(tuple(vocab[letter] for letter in "acdef"))
    found = loop._verdict(loop.verifier, draft, 0)
    assert (found.accepted, found.stood) == (5, (1,))
    assert len(asked) <= 2


def test_nothing_is_read_nor_measured_where_no_draft_is_verified():
    def never(_: Sequence[int] = ()) -> Any:
        raise AssertionError

    for mode in ("edge", "cloud", "lossless"):
        sound = Grounding(Lexicon.load(), "en", never, str.strip, never)
        table = table_loop(None if mode == "cloud" else saying("ab"), saying("ab"), sound=sound, mode=mode)
        collect(table.run())
