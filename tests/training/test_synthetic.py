"""Synthetic speech is spoken in the language of its text."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from training.synthetic import SENTENCES, VOICES, syllables

pytestmark = pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="espeak-ng is not installed")


@pytest.mark.parametrize("language", SENTENCES)
def test_a_voice_reads_its_sentences_without_falling_back_to_english(language: str) -> None:
    command = ["espeak-ng", "-q", "--ipa", "-v", VOICES.get(language, language), " ".join(SENTENCES[language])]
    assert "(en)" not in subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_syllables_are_characters_in_chinese_and_vowels_elsewhere() -> None:
    assert syllables("cmn", "公园里的花都开了。") == 8
    assert syllables("de", "Am Abend sitzen wir oft im Garten.") == 10
