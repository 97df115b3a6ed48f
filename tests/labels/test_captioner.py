"""Labels from Python: a captioner that has a lexicon says the classes of its captions, its variants too."""

from __future__ import annotations

from specdec_cli import Finished, Lexicon
from specdec_cli.export.recordings import details
from tests.mini_pair import RATE, captioner, voice


def test_a_labelled_captioner() -> None:
    plain = captioner(prompt__language="en")
    labelled = plain.labelled(Lexicon.load())
    updates = list(labelled.run_samples(voice(0), RATE))
    transcript = labelled.run_samples(voice(0), RATE).finish()
    assert isinstance(updates[-1].event, Finished)
    assert transcript.emotions == Lexicon.load().emotions(transcript.caption or "", "en") != ()
    assert details(transcript)["emotions"] == ", ".join(transcript.emotions)
    assert updates[-1].text.labels == transcript.labels == Lexicon.load().labels(transcript.caption or "", "en")
    assert all(update.text.labels is None for update in updates[:-1])
    assert plain.run_samples(voice(0), RATE).finish().labels is None


def test_the_gate_between_classes_sums_over_the_lexicon_s_groups() -> None:
    found = captioner(prompt__language="en", gate__name="class-entropy", gate__threshold=0.3, decoding__defer=False)
    transcript = found.run_samples(voice(0), RATE).finish()
    pairs = [pair for each in transcript.rounds for pair in zip(each.gate_values, each.entropy, strict=True)]
    assert all(-1e-6 <= value <= nats + 1e-4 for value, nats in pairs)
    assert any(value < nats - 1e-3 for value, nats in pairs)
    assert {each.reason for each in transcript.rounds} == {"class-entropy", None}
