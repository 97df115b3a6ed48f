"""What the mini pair guesses from before it has captioned anything."""

import pytest

from specdec_cli.pair_loading import SHIPPED_CAPTIONS
from tests.mini_pair import RATE, captioner, voice
from training.memory import shipped_captions


def test_the_shipped_file_is_what_the_code_writes_for_the_shipped_weights():
    weights = captioner(decoding__mode="hybrid").setup.models.weights
    assert SHIPPED_CAPTIONS.read_text(encoding="utf-8") == shipped_captions(weights)


@pytest.mark.parametrize(("mode", "language"), [("edge", "zh"), ("cloud", "en")])
def test_a_first_clip_gains_from_it_and_keeps_its_text(mode, language):
    guessing, plain = (
        captioner(decoding__mode=mode, prompt__language=language, decoding__guess_tokens=tokens)
        .run_samples(voice(1), RATE)
        .finish()
        for tokens in (8, 0)
    )
    assert guessing.caption == plain.caption
    assert (guessing.totals.guesses_kept or 0) > guessing.totals.tokens / 3
