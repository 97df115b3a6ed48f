"""Transcripts of the mini pair in every mode, each made when it is first wanted."""

import pytest

from specdec_cli import Transcript
from tests.mini_pair import RATE, captioner, voice


class Made(dict[str, Transcript]):
    """Name of a case -> transcript: a mode and a language, or a hybrid that is asked often or never."""

    def __missing__(self, case: str) -> Transcript:
        mode, _, language = case.partition("-")
        if case == "asked-often":
            runner, seed = captioner(gate__threshold=0.02, decoding__k=3, prompt__language="en"), 2
        elif case == "never-asked":
            runner, seed = captioner(gate__name="never"), 2
        else:
            runner, seed = captioner(decoding__mode=mode, prompt__language=language), 1
        self[case] = runner.run_samples(voice(seed), RATE, name="buzz").finish()
        return self[case]


@pytest.fixture(scope="session")
def transcripts() -> Made:
    return Made()
