"""What went wrong in earlier code of this kind, each as a test that would have caught it."""

from typing import Any

import pytest
import torch

from specdec_cli.decoding.gate import Gate
from specdec_cli.models.engine import _forward
from specdec_cli.models.session import Session
from specdec_cli.types import DEFAULT_THRESHOLDS
from tests.laws.cases import collect
from tests.support.models import tiny_clip, tiny_model
from tests.table import TableModel, certain, spelled, table_loop
from tests.tiny import settings


def test_a_block_advances_the_cache_once():
    """Drafting and then "updating the context" fed a block twice; the cache ran ahead of the text: ABABAB."""
    edge = certain({"^": "a", "a": "b", "b": "c", "c": "d", "d": ""})
    sure = certain({"^": "a", "a": "b", "b": "c", "c": "d", "d": ""})
    _, finished = collect(table_loop(edge, sure, mode="lossless", k=2).events())
    assert spelled(edge, finished.token_ids) == "abcd"
    for model in (edge, sure):
        positions = [position for position, _ in model.fed]
        assert positions == sorted(set(positions)), "a position was fed again although nothing was rejected"


def test_the_seed_of_a_block_is_the_tail_of_the_text():
    """A stale `last_token_id` seeded the block after a correction: 78685, 78685, 78685."""
    edge = certain({"^": "a", "a": "a", "c": "d", "d": ""})  # says "aaa" until it is told otherwise
    sure = certain({"^": "a", "a": "c", "c": "d", "d": ""})
    rounds, finished = collect(table_loop(edge, sure, mode="lossless", k=3).events())
    assert spelled(edge, finished.token_ids) == "acd"
    assert spelled(edge, rounds[0].committed_ids) == "ac"
    assert spelled(edge, rounds[1].draft_ids) == "d", "the second block must set out from the correction"


@pytest.mark.parametrize("cloud_says", [{"^": "a", "a": "b", "b": "c", "c": ""}, {"^": "c", "c": ""}])
@pytest.mark.parametrize("settings", [{}, {"temperature": 0.5}, {"acceptance": "rank"}])
def test_a_row_that_no_text_needs_does_not_fail_a_clip(cloud_says, settings):
    """Behind the end of a draft the ban left no token, and the clip failed."""
    edge = certain({"^": "a", "a": "b", "b": "c", "c": ""}, size=5)
    cloud = certain(cloud_says, size=5)
    mode = "hybrid" if "acceptance" in settings else "lossless"
    always = {"mode": mode, "gate": "always", "k": 4, "no_repeat_ngram": 1, **settings}
    _, finished = collect(table_loop(edge, cloud, **always).events())
    assert spelled(edge, finished.token_ids) == ("abc" if settings.get("acceptance") else "".join(cloud_says)[1:])


def test_stop_rules_do_not_shorten_a_draft():
    """They ran inside the draft and cut blocks short; they belong to committed text."""
    edge = certain({"^": "a", "a": "b", "b": "c", "c": "d", "d": "e", "e": ""})
    rounds, finished = collect(table_loop(edge, None, k=4, stop_strings=("b",)).events())
    assert spelled(edge, rounds[0].draft_ids) == "abcd"
    assert spelled(edge, finished.token_ids) == "ab"
    assert finished.finish_reason == "stop_string"


def test_a_loop_does_not_truncate_a_caption_that_the_cloud_can_save():
    """A loop detector that stops costs the rest of the caption."""
    edge = certain({"^": "a", "a": "a", "c": "d", "d": ""})
    sure = certain({"^": "a", "a": "c", "c": "d", "d": ""})
    rounds, finished = collect(table_loop(edge, sure, mode="hybrid", gate="never", k=5).events())
    assert rounds[0].reason == "loop"
    assert spelled(edge, finished.token_ids) == "acd"
    assert finished.finish_reason == "eos"


def test_the_default_entropy_threshold_stops_bad_blocks():
    """A threshold of 4.0 waved them through: e^4 is 55 equally likely tokens."""
    assert DEFAULT_THRESHOLDS["entropy"] <= 2.5
    flat = TableModel(torch.zeros(20, 20))  # ln 20 = 3.0 nats at every token
    sure = certain({"^": "c", "c": ""}, size=20)
    rounds, _ = collect(table_loop(flat, sure, mode="hybrid", gate="entropy").events())
    assert rounds[0].escalated
    assert Gate.of(settings(gate="entropy")).threshold == DEFAULT_THRESHOLDS["entropy"]


def test_neither_model_says_what_the_other_cannot():
    """3B and 7B pad their vocabularies differently: a padded row that wins must not be drafted nor verified."""
    edge = certain({"^": "c", "c": "d", "d": ""}, size=6)
    padded = TableModel(torch.nn.functional.pad(edge.table, (0, 2, 0, 2)), letters=6)
    padded.table[:, 7] = 99.0  # a padding row that would win everywhere
    for drafter, verifier in ((edge, padded), (padded, edge)):
        for mode in ("lossless", "hybrid", "cloud", "edge"):
            _, finished = collect(table_loop(drafter, verifier, mode=mode, gate="always").events())
            assert spelled(edge, finished.token_ids) == "cd"


@pytest.mark.parametrize("graphs", ["off", "on"])
def test_a_joint_forward_whose_scoring_fails_leaves_its_neighbours_right(graphs, monkeypatch):
    """Clips after the one that failed kept keys that their text did not list: plausible text, and wrong."""
    model = tiny_model(5, graphs=graphs)
    model.reserve(3)
    clips = [model.processor.prompt(tiny_clip(at), "say how") for at in range(3)]
    sessions, text = [Session(model, clip, 20) for clip in clips], [65, 66, 67, 68]
    for session in sessions:
        session.logits(())
    scored, calls = Session.vocabulary_rows, list[Session]()

    def failing(session: Session, *args: Any) -> torch.Tensor:
        calls.append(session)
        if session is sessions[1] and len(calls) < 4:
            raise torch.OutOfMemoryError("out of memory")
        return scored(session, *args)

    monkeypatch.setattr(Session, "vocabulary_rows", failing)
    found = _forward([(session, text, 2) for session in sessions])
    for clip, session, scores in zip(clips, sessions, found, strict=True):
        assert session.length == len(clip.ids) + len(text)
        assert {layer.get_seq_length() for layer in session.cache.layers} == {session.length}
        torch.testing.assert_close(scores, Session(model, clip, 20).logits(text, 2), atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(
            session.logits([*text, 69]), Session(model, clip, 20).logits([*text, 69]), atol=1e-4, rtol=1e-4
        )
