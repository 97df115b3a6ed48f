"""Three generated voices in all modes, captioned once, and the page about them; a server with its page."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.cli.conftest import _own_environment, specdec  # noqa: F401 - fixtures
from tests.mini_pair import RATE, voice
from tests.pages.sample import Runs, comparison, page_of, runs_over, voices
from tests.support.browser import browser, visit  # noqa: F401 - fixtures
from tests.support.servers import Running, captioning


@pytest.fixture(scope="session")
def runs(tmp_path_factory) -> Runs:
    """Mode -> its transcripts of the voices, in English."""
    return runs_over(voices(tmp_path_factory.mktemp("voices"), 3))


@pytest.fixture(scope="session")
def page(runs, tmp_path_factory) -> Path:
    """The report as a file."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page_of(comparison(runs), runs), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    """A server of the mini pair without a token."""
    with captioning(token=None) as running:
        yield running


@pytest.fixture(scope="session")
def long(tmp_path_factory) -> Path:
    """A recording of several pieces: voices with pauses between them."""
    pause = np.zeros(RATE, np.float32)
    path = tmp_path_factory.mktemp("long") / "long talk.wav"
    soundfile.write(path, np.concatenate([each for seed in range(9) for each in (voice(seed, 2.5), pause)]), RATE)
    return path
