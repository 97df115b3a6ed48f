"""What counts as an improvement by the cloud, which the mini pair's gate is fitted to find."""

from collections.abc import Sequence

import pytest

from specdec_cli.decoding.evidence import TokenEvidence
from specdec_cli.labels import Lexicon
from specdec_cli.labels.grounding import Grounding
from specdec_cli.tune.outcomes import CaptionQuality
from specdec_cli.tune.recording import Track
from specdec_cli.types import Measured

pytest.importorskip("sklearn", reason="needs the extra [tune]")

from training.fit_gate import Improvements, Part

PIECES = ("A sad voice", " at a", " normal", " volume.", " loud", "A happy voice", "A gloomy voice")


def evidence(id_: int) -> TokenEvidence:
    return TokenEvidence(id=id_, entropy=1.0, margin=0.1, logprob=-1.0, candidates=((id_, 0.5),))


@pytest.mark.parametrize(
    ("position", "theirs", "right", "level", "weight"),
    [
        (0, 5, {"emotion": "happy"}, None, 10.0),
        (0, 5, {"emotion": "sad"}, None, 0.0),
        (0, 5, {"emotion": "angry"}, None, 0.0),  # neither is right
        (0, 5, {}, None, 10.0),  # nobody knows better
        (0, 6, {"emotion": "sad"}, None, 0.0),  # the same class
        (2, 4, {"volume": "loud"}, None, 1.0),
        (2, 4, {"volume": "loud"}, -20.4, 0.0),  # the sound overrules it
    ],
)
def test_an_improvement_is_right_only_with_the_clouds_token(position, theirs, right, level, weight):
    def decode(ids: Sequence[int]) -> str:
        return "".join(PIECES[id_] for id_ in ids)

    lexicon, drafted = Lexicon.shipped(), (0, 1, 2, 3)
    part = Part([], CaptionQuality(lexicon, {}, "en", decode), [], [], [])
    sound = Grounding(lexicon, "en", decode, str.strip, lambda: Measured(level_dbfs=level))
    target = [*drafted]
    target[position] = theirs
    track = Track(ids=drafted, edge=tuple(map(evidence, drafted)), target=tuple(target))
    assert Improvements(part, right, sound, {"emotion": 10.0}).weight(track, position) == weight
