"""The sound in the pipeline of both models: what it bans is not written, and every figure is of what is left."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch

from specdec_cli.decoding.block import Block
from specdec_cli.labels import Lexicon
from specdec_cli.labels.class_words import ClassWords
from specdec_cli.labels.grounding import Grounding
from specdec_cli.types import Finished, Measured
from tests.laws.cases import collect
from tests.table import Letters, TableModel, table_loop

FAST = Measured(rate_per_s=7.5)
SPOKEN = {"a": "She speaks", "b": " slowly", "c": " quickly", "d": " at a moderate pace", "e": ", with", "f": " joy."}
SLOW_FIRST = {"^": "a", "a": {"b": 0.6, "c": 0.3, "d": 0.1}, "b": "e", "c": "e", "d": "e", "e": "f", "f": ""}
FAST_FIRST = SLOW_FIRST | {"a": {"b": 0.2, "c": 0.7, "d": 0.1}}
WAYS: list[dict[str, Any]] = [{"k": 1}, {"k": 3}, {"defer": True}]


def read(ids: Sequence[int]) -> str:
    return "".join(SPOKEN.get(letter, "") for letter in Letters(8).decode(ids))


def saying(following: Mapping[str, str | Mapping[str, float]]) -> TableModel:
    """A model by the letters that follow each letter, with their probabilities."""
    table, vocabulary = torch.full((8, 8), -30.0), Letters(8).get_vocab()
    for letter, after in following.items():
        for each, p in ({after: 1.0} if isinstance(after, str) else after).items():
            table[vocabulary[letter], vocabulary[each or "<eos>"]] = math.log(p)
    model = TableModel(table)
    model.processor.text = read
    return model


def bans(measured: Measured = FAST) -> Grounding:
    return Grounding(Lexicon.shipped(), "en", measured, ClassWords(Lexicon.shipped(), ["rate"], read))


def ran(edge: TableModel | None, cloud: TableModel | None, **given: Any) -> tuple[list[Block], Finished, str]:
    """Rounds, end, and the letters of the text."""
    sound = given.pop("sound", bans())
    rounds, finished = collect(table_loop(edge, cloud, sound=sound, **{"gate": "never"} | given).events())
    return rounds, finished, Letters(8).decode(finished.token_ids)


@pytest.mark.parametrize("way", WAYS)
def test_no_model_writes_what_contradicts_the_sound(way):
    for mode, models in (
        ("edge", (saying(SLOW_FIRST), None)),
        ("cloud", (None, saying(SLOW_FIRST))),
        ("lossless", (saying(FAST_FIRST), saying(SLOW_FIRST))),
        ("hybrid", (saying(SLOW_FIRST), saying(FAST_FIRST))),
    ):
        given = {"mode": mode, **({} if mode in ("edge", "cloud") else way)}
        assert ran(*models, **given)[2] == "acef"
        assert ran(*models, **given, sound=None)[2] == ("acef" if mode == "hybrid" and not way else "abef")
        assert ran(*models, **given, sound=bans(Measured()))[2] == "abef"


def test_a_ban_of_the_edge_is_none_of_the_cloud():
    # nothing that fits is likely for this cloud, so that it is free to say what contradicts the sound
    cloud = saying(SLOW_FIRST | {"a": {"b": 0.995, "c": 0.004, "d": 0.001}})
    assert ran(saying(SLOW_FIRST), cloud, gate="always")[2] == "abef"
    assert ran(saying(SLOW_FIRST), cloud, gate="never")[2] == "acef"


def test_evidence_is_of_what_is_left():
    rounds, _, _ = ran(saying(SLOW_FIRST), None)
    token = rounds[0].draft.gate_state.evidence[1]
    assert token.logprob == pytest.approx(math.log(0.75), abs=1e-4)
    assert [id_ for id_, p in token.candidates if p > 0.01] == [4, 5]
    assert token.entropy == pytest.approx(-0.75 * math.log(0.75) - 0.25 * math.log(0.25), abs=1e-4)


def test_the_probabilities_that_the_sound_judges_are_those_before_a_temperature():
    model = saying(SLOW_FIRST | {"a": {"b": 0.992, "c": 0.008}})
    assert {ran(model, None, temperature=t, seed=0)[2] for t in (0.0, 0.1)} == {"abef"}
    assert {ran(model, None, temperature=5.0, top_k=2, seed=seed)[2] for seed in range(9)} == {"abef", "acef"}
    assert {ran(saying(SLOW_FIRST), None, temperature=1.0, top_k=1, seed=seed)[2] for seed in range(9)} == {"acef"}
