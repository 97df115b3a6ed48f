"""Transcripts of the mini pair in every mode, made once."""

import pytest

from specdec_cli import Transcript
from tests.mini_pair import MODES, RATE, captioner, voice


@pytest.fixture(scope="session")
def transcripts() -> dict[str, Transcript]:
    """Name of the case -> transcript: every mode in both languages, and two hybrids that are asked often and never."""
    made = {}
    for language in ("zh", "en"):
        for mode in MODES:
            runner = captioner(decoding__mode=mode, prompt__language=language)
            made[f"{mode}-{language}"] = runner.run_samples(voice(1), RATE, name="buzz").finish()
    asked = captioner(gate__threshold=0.02, decoding__k=3, prompt__language="en")
    made["asked-often"] = asked.run_samples(voice(2), RATE, name="buzz").finish()
    never = captioner(gate__name="never")
    made["never-asked"] = never.run_samples(voice(2), RATE, name="buzz").finish()
    return made
