"""The shipped checkpoints: complete, small enough, one vocabulary, and able to caption the samples."""

import json
import re

import pytest
from transformers import PreTrainedTokenizerFast

from specdec_cli.prompts import PROMPTS
from tests.mini_pair import captioner, mini_pair
from tests.tiers import few
from training import CLOUD_WEIGHTS, EDGE_WEIGHTS, WEIGHTS
from training.captions import classes_in, is_well_formed
from training.labels import PROSODY
from training.tokenizer import CHAT_TEMPLATE, train_tokenizer

SIDES = {"edge": EDGE_WEIGHTS, "cloud": CLOUD_WEIGHTS}
MEGABYTE = 1_000_000


def test_sizes():
    files = [file for folder in SIDES.values() for file in folder.iterdir()]
    assert max(file.stat().st_size for file in files) < 50 * MEGABYTE
    assert sum(file.stat().st_size for file in files) < 90 * MEGABYTE


def test_both_sides_share_a_vocabulary_and_pad_it_differently():
    vocabularies = [PreTrainedTokenizerFast.from_pretrained(folder).get_vocab() for folder in SIDES.values()]
    assert vocabularies[0] == vocabularies[1] == train_tokenizer().get_vocab()
    sizes = [model.module.config.text_config.vocab_size for model in mini_pair().loaded]
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


@pytest.mark.parametrize(("language", "style"), few(PROMPTS))
@pytest.mark.parametrize("name", SIDES)
def test_captions_of_the_samples_answer_every_prompt_and_mostly_say_what_the_samples_are(
    samples, name, language, style
):
    alone, right = (
        captioner(decoding__mode=name, decoding__sound=[], prompt__language=language, prompt__instruction=style),
        [],
    )
    for clip in json.loads((samples / "manifest.json").read_text(encoding="utf-8")):
        text = alone.caption(samples / clip["file"]).caption
        assert is_well_formed(text, language, style)
        found = classes_in(text, language)
        right += [found[attribute] == clip["classes"][attribute] for attribute in PROSODY if attribute in found]
    assert sum(right) / len(right) > 0.7


def test_the_card_has_figures_and_the_notice_licences():
    card = (WEIGHTS / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert re.search(r"\| emotion, mean of corpora \|( \d+\.\d \|){4}", card)
    assert "CC BY-NC-SA 4.0" in card
    notice = (WEIGHTS / "NOTICE.md").read_text(encoding="utf-8")
    assert all(word in notice for word in ("CC BY-NC-SA 4.0", "ODbL", "CC0", "MIT License", "OpenAI"))
