"""What went wrong in earlier code of this kind, each as a test that would have caught it."""

from typing import Any

import pytest
import torch

from specdec_cli.models.engine import _forward
from specdec_cli.models.session import Session
from tests.laws.cases import collect
from tests.support.models import tiny_clip, tiny_model
from tests.table import TableModel, certain, spelled, table_loop


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
