"""Prompts are the template's own ids; two models work over the longest common beginning of their vocabularies."""

import copy
from collections.abc import Mapping
from types import SimpleNamespace

import pytest

from specdec_cli.decoding.pair import Pair
from specdec_cli.errors import CheckpointError, TokenizerMismatchError
from specdec_cli.models.processor import Processor, shared_vocab_size
from tests.laws.cases import Case, make_case
from tests.laws.checks import cloud_law, edge_law
from tests.models.test_features import audio_model
from tests.tiny import tiny_clip, tiny_model

PIECES = 266  # 256 bytes and ten special tokens


def _with(pieces: Mapping[str, int], name: str = "m", eos: tuple[int, ...] = (0,)) -> Processor:
    processor = copy.copy(tiny_model(0).processor)
    processor.name, processor.eos_ids = name, eos
    processor.vocab_size = max(pieces.values()) + 1
    processor.tokenizer = SimpleNamespace(get_vocab=lambda: pieces)
    return processor


@pytest.mark.parametrize(("edge", "cloud"), [(272, 320), (320, 272), (288, 288), (266, 1000)])
def test_paddings_may_differ(edge, cloud):
    pair = tiny_model(1, vocab_size=edge), tiny_model(2, vocab_size=cloud)
    assert shared_vocab_size(pair[0].processor, pair[1].processor) == PIECES
    assert Pair.of(*pair).vocab_size == PIECES


@pytest.mark.parametrize(
    ("mine", "theirs", "shared"),
    [
        ({"a": 0, "b": 1}, {"a": 0, "b": 1}, 2),
        ({"a": 0, "b": 1}, {"a": 0, "c": 1}, 1),
        ({"a": 0}, {"a": 0, "b": 1}, 1),
        ({"a": 0, "b": 1, "q": 2, "c": 3}, {"a": 0, "b": 1, "c": 2, "q": 3}, 2),
        ({"a": 0, "z": 7}, {"a": 0, "z": 7}, 8),  # holes on both sides
        ({"a": 0, "z": 7}, {"a": 0, "b": 1, "z": 7}, 1),
    ],
)
def test_the_longest_common_beginning_is_shared(mine, theirs, shared):
    assert shared_vocab_size(_with(mine), _with(theirs)) == shared
    assert shared_vocab_size(_with(theirs), _with(mine)) == shared


def test_an_end_beyond_what_is_shared_is_refused_with_both_names():
    mine, theirs = {"a": 0, "b": 1}, {"a": 0, "c": 1}
    with pytest.raises(TokenizerMismatchError) as error:
        shared_vocab_size(_with(mine, "small", (1,)), _with(theirs, "large"))
    assert error.value.message == (
        "edge small and cloud large have different tokenizers (2 and 2 ids, of which the first 1 agree), and the eos "
        "id 1 lies beyond"
    )
    with pytest.raises(TokenizerMismatchError):
        shared_vocab_size(_with(theirs, "large"), _with(mine, "small", (1,)))


@pytest.mark.ci
def test_ids_beyond_the_common_beginning_are_never_generated():
    """Each model is kept to what both mean alike, and the laws hold with the rest suppressed."""
    edge, cloud = tiny_model(1), tiny_model(2, merges=3)
    ends = tuple(range(5, 256, 31))
    edge.processor.eos_ids = cloud.processor.eos_ids = ends
    pair = Pair.of(edge, cloud)
    assert pair.vocab_size == 256
    for number in range(97_000, 97_010):
        drawn = make_case(number, mode=("lossless", "edge", "cloud")[number % 3], loop_period=0)
        prompts = [model.processor.prompt(drawn.edge_prompt.waveform, "say how") for model in (edge, cloud)]
        case = Case(number, pair, *prompts, drawn.given, drawn.weights)
        assert (edge_law if number % 3 == 1 else cloud_law)(case) is None


# --- prompts ---

AUDIO = "<|AUDIO|>"


def test_a_prompt_reads_as_the_template_says():
    processor = tiny_model(3).processor
    assert processor.tokenizer.decode(processor.prompt(tiny_clip(0, 0.16), "how?", "Listen.").ids) == (
        "<|im_start|>system\nListen.<|im_end|>\n<|im_start|>user\n<|audio_bos|>"
        + AUDIO * 4
        + "<|audio_eos|>how?<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize("where", ["instruction", "system"])
def test_a_placeholder_in_the_users_words_is_refused(where):
    words: dict[str, str] = {"instruction": "how?", where: f"like {AUDIO}?"}
    with pytest.raises(CheckpointError, match="puts 2 audio placeholders"):
        tiny_model(3).processor.prompt(tiny_clip(0), **words)


def test_pieces_and_texts():
    processor = tiny_model(3).processor
    ids = processor.tokenizer("é好", add_special_tokens=False).input_ids
    assert processor.text([*ids, *processor.eos_ids]) == "é好"
    assert processor.text(ids[:1]) == "\ufffd"
    assert processor.token_text(processor.eos_ids[0]) == "<|im_end|>"


def test_fingerprints_tell_tokenizers_and_front_ends_apart():
    plain, merged = tiny_model(3).processor.fingerprints(), tiny_model(3, merges=3).processor.fingerprints()
    wide = audio_model(128, 300, 100).processor.fingerprints()
    assert plain == tiny_model(4, vocab_size=320).processor.fingerprints()
    assert plain["tokenizer"] != merged["tokenizer"]
    assert plain["tokenizer"] == wide["tokenizer"]
    assert plain["prompts"] != wide["prompts"]
