"""The utterances of a recording made of labelled clips, in silence and in noise."""

import numpy as np
import pytest
import soundfile

from tools import long_recording as tool
from training.corpus import SAMPLE_RATE


@pytest.mark.data
@pytest.mark.slow
def test_utterances_of_many_speakers_are_found(tmp_path, data):
    clips = tool.choose(data, 180, np.random.default_rng(0))
    for title, samples, places in tool.variants(clips, 0):
        path = tmp_path / "long.flac"
        soundfile.write(path, samples, SAMPLE_RATE)
        found = tool.score(places, tool.cuts_of(path))
        least = 0.97 if title.startswith("silence") else 0.95 if title.startswith("whole") else 0.9
        assert found.share >= least, title
        assert found.cut == 0, title
