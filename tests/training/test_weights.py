"""The shipped checkpoints: complete, small enough, one vocabulary, and able to caption the samples."""

import json
import re

import pytest
from transformers import PreTrainedTokenizerFast

from specdec_cli.prompts import PROMPTS
from tests.tiers import few
from training import CLOUD_WEIGHTS, EDGE_WEIGHTS, WEIGHTS
from training.captioning import Captioner
from training.captions import is_well_formed, parse
from training.corpus import read_audio
from training.labels import PROSODY
from training.tokenizer import CHAT_TEMPLATE, train_tokenizer

SIDES = {"edge": EDGE_WEIGHTS, "cloud": CLOUD_WEIGHTS}
MEGABYTE = 1_000_000
Captions = dict[tuple[str, str, str], str]


@pytest.fixture(scope="module")
def captioners() -> dict[str, Captioner]:
    return {name: Captioner.load(folder) for name, folder in SIDES.items()}


@pytest.fixture(scope="module")
def captions(captioners, samples) -> Captions:
    """Default captions by side, clip and language."""
    found: Captions = {}
    for clip in json.loads((samples / "manifest.json").read_text(encoding="utf-8")):
        waveform = read_audio(samples / clip["file"])
        for name, captioner in captioners.items():
            for language in ("zh", "en"):
                found[name, clip["file"], language] = captioner.caption(waveform, language)
    return found


def test_sizes():
    files = [file for folder in SIDES.values() for file in folder.iterdir()]
    assert max(file.stat().st_size for file in files) < 50 * MEGABYTE
    assert sum(file.stat().st_size for file in files) < 90 * MEGABYTE


def test_both_sides_share_a_vocabulary_and_pad_it_differently(captioners):
    vocabularies = [PreTrainedTokenizerFast.from_pretrained(folder).get_vocab() for folder in SIDES.values()]
    assert vocabularies[0] == vocabularies[1] == train_tokenizer().get_vocab()
    sizes = [captioner.model.config.text_config.vocab_size for captioner in captioners.values()]
    assert sizes[0] != sizes[1]
    assert min(sizes) >= len(vocabularies[0])


@pytest.mark.parametrize("folder", SIDES.values(), ids=SIDES)
def test_files_around_the_weights(folder):
    generation = json.loads((folder / "generation_config.json").read_text(encoding="utf-8"))
    extractor = json.loads((folder / "preprocessor_config.json").read_text(encoding="utf-8"))
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    assert generation["eos_token_id"] == tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert (extractor["feature_size"], extractor["sampling_rate"], extractor["chunk_length"]) == (80, 16_000, 30)
    assert tokenizer.chat_template == CHAT_TEMPLATE


@pytest.mark.slow
@pytest.mark.xdist_group("samples")  # which are captioned once
def test_captions_of_the_samples_are_well_formed(captions):
    broken = {key: text for key, text in captions.items() if not is_well_formed(text, key[2], "default")}
    assert not broken


@pytest.mark.slow
@pytest.mark.xdist_group("samples")  # which are captioned once
def test_most_of_what_the_samples_are_is_said(captions, samples):
    for name in SIDES:
        right = []
        for clip in json.loads((samples / "manifest.json").read_text(encoding="utf-8")):
            for language in ("zh", "en"):
                found = parse(captions[name, clip["file"], language], language)
                right += [found[attribute] == clip["classes"][attribute] for attribute in PROSODY]
        assert sum(right) / len(right) > 0.7, name


@pytest.mark.parametrize(("language", "style"), few(PROMPTS))
def test_every_prompt_is_answered_in_its_language_and_style(captioners, samples, language, style):
    waveform = read_audio(samples / "en_male_pauses.flac")
    for captioner in captioners.values():
        assert is_well_formed(captioner.caption(waveform, language, style), language, style)


def test_the_card_has_figures_and_the_notice_licences():
    card = (WEIGHTS / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert re.search(r"\| emotion, mean of corpora \|( \d+\.\d \|){4}", card)
    assert "CC BY-NC-SA 4.0" in card
    notice = (WEIGHTS / "NOTICE.md").read_text(encoding="utf-8")
    assert all(word in notice for word in ("CC BY-NC-SA 4.0", "ODbL", "CC0", "MIT License", "OpenAI"))
