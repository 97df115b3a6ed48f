"""A long recording in pieces and a short one, captioned once with scores."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from specdec_cli.labels import Lexicon
from tests.cli.conftest import _own_environment, specdec  # noqa: F401 - fixtures
from tests.mini_pair import RATE, captioner, voice, write_voice
from tests.support.browser import browser, visit  # noqa: F401 - fixtures
from tests.support.transcripts import append_transcript


@pytest.fixture(scope="session")
def transcripts(tmp_path_factory) -> Path:
    """Transcripts of three pieces of `long.wav` and of `short.wav`, which lie beside them."""
    folder = tmp_path_factory.mktemp("review")
    soundfile.write(folder / "long.wav", np.concatenate([voice(seed, 2.0) for seed in range(3)]), RATE)
    write_voice(folder / "short.wav", 5)
    use = captioner(decoding__mode="lossless", prompt__language="en", audio__segment=2.0).labelled(Lexicon.read())
    path = folder / "captions.jsonl"
    for file in ("long.wav", "short.wav"):
        for transcript in use.captions(folder / file):
            append_transcript(path, transcript)
    return path
