"""A caption ends where it stops describing."""

from pathlib import Path

from specdec_cli.captioner import Captioner

SAMPLE = Path(__file__).parents[2] / "samples" / "en_female_slow_soft.flac"


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
