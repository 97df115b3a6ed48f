"""Labels and scores of the shipped pair's captions: they add up, name the right model, cost no word, cross the wire."""

import pytest

from specdec_cli import Finished, Lexicon
from specdec_cli.captioner import Captioner
from specdec_cli.config import load_config
from specdec_cli.decoding.block import Block
from specdec_cli.errors import ConfigError
from specdec_cli.export.recordings import details
from specdec_cli.labels.calibration import calibration_for, sharpened, shipped
from specdec_cli.labels.probabilities import KEPT, needs_review
from specdec_cli.transcript.records import ClassScores, Transcript
from specdec_cli.transcript.round import Round
from tests.mini_pair import MODES, RATE, captioner, mini_pair, voice
from tests.support.servers import verifying
from tests.tiers import few

LEXICON = Lexicon.read()


def scored(use: Captioner, seed: int = 0) -> Transcript:
    return use.labelled(LEXICON).run_samples(voice(seed), RATE).finish()


def of(**classes: float) -> ClassScores:
    return ClassScores(by="edge", classes=classes, other=0.0)


def test_a_labelled_captioner():
    plain = captioner(prompt__language="en")
    labelled = plain.labelled(LEXICON)
    updates = list(labelled.run_samples(voice(0), RATE))
    transcript = labelled.run_samples(voice(0), RATE).finish()
    assert isinstance(updates[-1].event, Finished)
    assert transcript.emotions == LEXICON.emotions(transcript.caption or "", "en") != ()
    assert details(transcript)["emotions"] == ", ".join(transcript.emotions)
    assert updates[-1].text.labels == transcript.labels == LEXICON.labels(transcript.caption or "", "en")
    assert all(update.text.labels is None for update in updates[:-1])
    assert plain.run_samples(voice(0), RATE).finish().labels is None


@pytest.mark.parametrize("mode", few(MODES, 2))
@pytest.mark.parametrize("language", few(["zh", "en"]))
def test_the_classes_of_a_caption_have_probabilities(mode, language):
    use = captioner(decoding__mode=mode, prompt__language=language)
    made, plain = scored(use), use.run_samples(voice(0), RATE).finish()
    assert made.caption == plain.caption
    assert plain.scores is None
    assert set(made.scores) == {name for name, class_ in made.labels.items() if class_ is not None}
    for name, scores in made.scores.items():
        assert set(scores.classes) == set(LEXICON.attributes[name])
        assert sum(scores.classes.values()) + scores.other == pytest.approx(1, abs=0.002)
        if mode != "hybrid":
            assert scores.by == ("edge" if mode == "edge" else "cloud")
        if mode in ("edge", "cloud"):  # greedy and alone: the likeliest class is the one in the caption
            assert max(scores.classes, key=scores.classes.__getitem__) == made.labels[name]
    assert made.needs_review == needs_review(made.labels, made.scores)
    assert Transcript.from_json(made.to_json()) == made


@pytest.mark.parametrize(
    "settings",
    few(
        [
            {"decoding__mode": "lossless", "decoding__k": 3},
            {"decoding__mode": "lossless", "decoding__temperature": 1.0},
            {"decoding__mode": "hybrid", "gate__threshold": 0.1, "decoding__acceptance": "rank"},
            {"decoding__mode": "cloud", "decoding__sentences": 1},
            {"decoding__mode": "edge", "decoding__max_new_tokens": 3},
        ]
    ),
)
def test_every_token_keeps_its_alternatives(settings):
    use = captioner(**settings).labelled(LEXICON)
    run = use.run_samples(voice(1), RATE)
    assert run.prompts is not None
    for event in use.pair.new_loop(use.config, run.prompts, use.gate, top_n=KEPT, synonyms=use.synonyms).events():
        for candidates in (token.alternatives[1] for token in (event.tokens if isinstance(event, Block) else ())):
            probabilities = [p for _, p in candidates]
            assert 0 < len(candidates) <= KEPT
            assert probabilities == sorted(probabilities, reverse=True)
            assert sum(probabilities) <= 1.001
    updates = list(run)
    seen = [update.event for update in updates if isinstance(update.event, Round)]
    assert list(run.finish().rounds) == seen, "a transcript holds the records that its reader saw"
    assert Transcript.from_json(run.finish().to_json()).rounds == run.finish().rounds
    made = scored(captioner(**settings), seed=1)
    assert made.caption == captioner(**settings).run_samples(voice(1), RATE).finish().caption
    assert set(made.scores or {}) <= {name for name, class_ in (made.labels or {}).items() if class_}


@pytest.mark.slow
def test_a_remote_cloud_tells_the_same():
    cloud = mini_pair().local("cloud")
    here = scored(captioner(decoding__mode="lossless"))
    with verifying(cloud) as served:
        flags = {
            "cloud.model": served.url,
            "remote.timeout_s": 60.0,
            "decoding.mode": "lossless",
            "prompt.language": "zh",
        }
        away = scored(Captioner.load(load_config("mini", flags=flags, environ={}).config))
    assert away.caption == here.caption
    for name, scores in away.scores.items():
        assert scores.by == "cloud"
        assert scores.classes == pytest.approx(here.scores[name].classes, abs=0.02)  # features cross in float16


def test_the_shipped_temperatures_are_of_their_weights_alone_and_those_of_a_user_of_both_models():
    weights = captioner(decoding__mode="edge").shared.models.weights["edge"] or ""
    known = calibration_for({"edge": weights, "cloud": "sha256:0"}, {"emotion": 3.0})
    assert known["edge"] == shipped().models["edge"].temperatures | {"emotion": 3.0}
    assert known["cloud"] == {"emotion": 3.0}


def test_temperatures_of_a_user_replace_the_shipped_ones():
    made = scored(captioner(decoding__mode="edge", judging__temperatures=("voice=2.0",)))
    raw = scored(captioner(decoding__mode="edge"))
    assert made.scores["voice"].temperature == 2.0
    assert made.scores["rate"] == raw.scores["rate"]
    with pytest.raises(ConfigError, match="no attribute 'mood'"):
        captioner(decoding__mode="edge", judging__temperatures=("mood=2",)).labelled(LEXICON)


def test_drawn_texts_are_not_calibrated():
    made = scored(captioner(decoding__mode="edge", decoding__temperature=0.7))
    assert made.scores
    assert all(scores.temperature is None for scores in made.scores.values())


@pytest.mark.parametrize("power", [0.3, 1.0, 2.5])
def test_a_temperature_keeps_order_and_sum(power):
    before = {"a": 0.6, "b": 0.25, "c": 0.1, "d": 0.0}
    after = sharpened(before, power)
    assert sum(after.values()) == pytest.approx(0.95)
    assert sorted(after, key=after.__getitem__) == sorted(before, key=before.__getitem__)
    assert sharpened({"a": 0.0}, power) == {"a": 0.0}


@pytest.mark.parametrize(
    ("labels", "scores", "doubtful"),
    [
        ({"emotion": "sad"}, {"emotion": of(sad=0.8, angry=0.2)}, False),
        ({"emotion": "sad"}, {"emotion": of(sad=0.45, angry=0.3)}, True),
        ({"emotion": "sad"}, {"emotion": of(sad=0.8).model_copy(update={"edge": "angry"})}, True),
        ({"emotion": None}, {}, False),
        ({"emotion": "sad", "voice": "male"}, {"emotion": of(sad=0.9), "voice": of(male=0.4, female=0.6)}, True),
    ],
)
def test_doubt(labels, scores, doubtful):
    assert needs_review(labels, scores) is doubtful


def test_a_variant_keeps_the_calibration():
    own = {"decoding__mode": "edge", "judging__temperatures": ("voice=2.0",)}
    use, drawn = (captioner(**own, decoding__temperature=t).labelled(LEXICON) for t in (0.0, 0.5))
    assert drawn.scorer.calibration is drawn.variant(drawn.config).scorer.calibration is None
    for varied in (drawn.variant(use.config), use.variant(drawn.config).variant(use.config)):
        assert varied.scorer == use.scorer
