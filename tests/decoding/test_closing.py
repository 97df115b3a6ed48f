"""Text that is no description wakes the cloud, and ends where it stops describing."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from specdec_cli.captioner import Captioner
from tests.laws.cases import collect
from tests.table import TableModel, certain, table_loop

SAMPLE = Path(__file__).parents[2] / "samples" / "en_female_slow_soft.flac"
SPOKEN = {
    "a": "抱歉，我", "b": "无法判断情绪。", "c": "语气平静，", "d": "声音低沉。", "e": "The voice ",
    "f": "is calm and low.",
}  # fmt: skip


def worded(chain: str, after: str = "") -> TableModel:
    """A model that says the pieces of `chain`, one after the other, or goes on with those of `after`."""
    model = certain({**dict(pairwise([*after, ""])), **dict(pairwise(["^", *chain, ""]))})
    model.processor.text = lambda ids: "".join(SPOKEN.get(model.processor.token_text(id_), "") for id_ in ids)
    return model


@pytest.mark.parametrize("way", [{"k": 2}, {"defer": True}])
@pytest.mark.parametrize(
    ("edge", "language", "reason"), [("ab", "zh", "refusal"), ("ef", "zh", "language"), ("cd", "en", "language")]
)
def test_a_refusal_and_another_language_wake_the_cloud(edge, language, reason, way):
    good = "cd" if language == "zh" else "ef"
    given = {"closing": "on", "language": language, "gate": "never", **way}
    rounds, finished = collect(table_loop(worded(edge, good), cloud := worded(good), **given).events())
    assert (rounds[0].reason, rounds[0].accepted) == (reason, 0)
    assert cloud.processor.text(finished.token_ids) == SPOKEN[good[0]] + SPOKEN[good[1]]

    silent, _ = collect(table_loop(worded(edge, good), worded(good), **given | {"closing": "off"}).events())
    assert not any(round_.escalated for round_ in silent)


def test_the_same_fault_of_the_clouds_stands():
    given: dict[str, Any] = {"closing": "on", "language": "zh", "gate": "never", "k": 2}
    edge, cloud = worded("abc"), worded("abc")
    rounds, finished = collect(table_loop(edge, cloud, **given).events())
    assert [round_.reason for round_ in rounds] == ["refusal", None]
    assert cloud.processor.text(finished.token_ids) == "抱歉，我无法判断情绪。语气平静，"


def test_a_caption_ends_where_it_stops_describing(monkeypatch):
    """The text of a run goes on until it shows; views, caption and labels leave it out."""
    runner = Captioner.load(
        settings={"decoding.mode": "edge", "decoding.closing": "on", "decoding.k": 3, "prompt.language": "en"}
    )
    plain = runner.pair.processor.text
    monkeypatch.setattr(
        runner.pair.processor, "text", lambda ids: plain(ids) + (". What do you think? It is" if len(ids) > 20 else "")
    )
    (run,) = runner.runs(SAMPLE)
    seen = [update.text.caption for update in run]
    transcript = run.finish()
    assert transcript.finish_reason == "closing"
    assert transcript.totals.tokens == sum(len(record.committed_ids) for record in transcript.rounds) == 21
    assert transcript.caption == seen[-1] == seen[-2]
    assert not any("What do" in caption for caption in seen)
    assert "What do you think?" in "".join(record.committed_text for record in transcript.rounds)
