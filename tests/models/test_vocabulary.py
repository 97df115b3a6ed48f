"""Two models have one vocabulary, or are no pair; prompts are the template's own ids."""

import copy
from collections.abc import Container, Mapping, Sequence
from types import SimpleNamespace

import pytest

from specdec_cli.captioner import Captioner
from specdec_cli.decoding.pair import Pair
from specdec_cli.errors import CheckpointError, TokenizerMismatchError
from specdec_cli.models.processor import Processor, require_lossless, shared_vocab_size
from tests.laws.cases import Case, make_case
from tests.laws.checks import cloud_law, edge_law
from tests.models.test_features import audio_model
from tests.support.models import tiny_clip, tiny_model
from tests.tiny import settings

PIECES = 266  # 256 bytes and ten special tokens


def _with(pieces: Mapping[str, int], name: str, eos: Sequence[int], special: Container[str]) -> Processor:
    """A processor with a table of pieces, some of which are special or added tokens."""
    processor = copy.copy(tiny_model(0).processor)
    processor.__dict__.pop("word_ids", None)
    processor.name, processor.eos_ids = name, tuple(eos)
    processor.vocab_size = max(pieces.values()) + 1
    added = {id_: piece for piece, id_ in pieces.items() if piece in special}
    processor.tokenizer = SimpleNamespace(get_vocab=lambda: pieces, added_tokens_decoder=added, all_special_ids=[])
    return processor


# --- which pairs have one vocabulary ---

WORDS = tuple(f"w{at}" for at in range(300))
SPECIALS = ("<pad>", "<end>", "<sound>", "<image>")


def _table(words: Sequence[str] = WORDS, specials: Sequence[str] = SPECIALS, before: Sequence[str] = ()) -> list[str]:
    return [*before, *words, *specials]


def _swapped(at: int, other: int) -> tuple[str, ...]:
    words = list(WORDS)
    words[at], words[other] = words[other], words[at]
    return tuple(words)


END = len(WORDS) + 1
FRONT = ("<pad>", "<end>", "<mask>")
PAIRS: dict[str, tuple[list[str], list[str], int, int, int | str]] = {
    # edge, cloud, their ids of the end, and the ids that they share or what is said
    "the same": (_table(), _table(), END, END, 304),
    "audio and image tokens differ": (_table(), _table(specials=("<pad>", "<end>", "<a>", "<b>")), END, END, 302),
    "the cloud has more special tokens": (_table(), _table(specials=(*SPECIALS, *"xyz")), END, END, 304),
    "padding": (_table(), [*_table(), *(f"<unused{at}>" for at in range(50))], END, END, 304),
    "special tokens in front differ": (
        _table(specials=(), before=FRONT), _table(specials=(), before=("<pad>", "<end>", "<s>")), 1, 1, 303,
    ),
    "the last words differ": (
        _table((*WORDS[:298], "a", "b"), (), FRONT), _table((*WORDS[:298], "c", "d"), (), FRONT), 1, 1, 301,
    ),
    "the edge has fewer words": (_table(WORDS[:200], (), FRONT), _table(WORDS, (), FRONT), 1, 1, 203),
    "the edge has more words": (_table(WORDS, (), FRONT), _table(WORDS[:200], (), FRONT), 1, 1, 203),
    "an early id differs": (
        _table(("other", *WORDS[1:])), _table(), END, END, "of 300 words only the first 0 agree: 0 ('other' and 'w0')",
    ),
    "an id in the middle differs": (
        _table((*WORDS[:150], "x", *WORDS[151:])), _table(), END, END, "only the first 150 agree: 150 ('x' and 'w150')",
    ),
    "two ids are swapped": (
        _table(_swapped(8, 9)), _table(), END, END, "only the first 8 agree: 8 ('w9' and 'w8'), 9 ('w8' and 'w9')",
    ),
    "pieces are written otherwise": (
        _table([f"\u0120{word}" for word in WORDS]), _table([f"\u2581{word}" for word in WORDS]), END, END,
        "only the first 0 agree: 0 ('\u0120w0' and '\u2581w0')",
    ),
    "a word is missing, and all others move": (
        _table(WORDS[1:]), _table(), END - 1, END, "of 299 words only the first 0 agree: 0 ('w1' and 'w0')",
    ),
    "the ends have other ids": (
        _table(specials=("<end>", "<pad>")), _table(specials=("<pad>", "<end>")), 300, 301,
        "ids that end a text differ: 300 ('<end>' and '<pad>'), 301 ('<pad>' and '<end>')",
    ),
    "the end of the cloud is unknown to the edge": (
        _table(specials=("<pad>", "<end>")), _table(specials=("<pad>", "<end>", "<eot>")), 301, 302,
        "ids that end a text differ: 302 (none and '<eot>')",
    ),
    "a word of one is special to the other": (_table(("<s>", *WORDS[1:])), _table(("<s>", *WORDS[1:])), END, END, 304),
}  # fmt: skip
NOT_LOSSLESS = {"the last words differ": "2 words", "the edge has fewer words": "100 words"}
"""Pairs whose cloud has words of its own, so that lossless mode would not give its own text."""


def _pair(name: str) -> tuple[Processor, Processor]:
    mine, theirs, end, other, _ = PAIRS[name]
    special = {*SPECIALS, *FRONT, "<a>", "<b>", "<c>", *"xyz", "<eot>", *(f"<unused{at}>" for at in range(50))}
    one = special | {"<s>"} if name.startswith("a word of one") else special
    other_specials = special | {"<s>"} if name.startswith("special tokens in front") else special
    tables = [{piece: at for at, piece in enumerate(table)} for table in (mine, theirs)]
    return _with(tables[0], "small", (end,), one), _with(tables[1], "large", (other,), other_specials)


@pytest.mark.parametrize("name", PAIRS)
def test_a_pair_has_one_vocabulary_or_none(name):
    edge, cloud = _pair(name)
    wanted = PAIRS[name][-1]
    if isinstance(wanted, int):
        assert shared_vocab_size(edge, cloud) == wanted
        return
    with pytest.raises(TokenizerMismatchError) as caught:
        shared_vocab_size(edge, cloud)
    assert caught.value.message.startswith("edge small and cloud large have different tokenizers: ")
    assert wanted in caught.value.message
    assert "two sizes of one family" in str(caught.value.hint)


@pytest.mark.parametrize("name", [name for name, row in PAIRS.items() if isinstance(row[-1], int)])
def test_lossless_keeps_the_clouds_own_text_or_is_refused(name):
    edge, cloud = _pair(name)
    shared = shared_vocab_size(edge, cloud)
    if name not in NOT_LOSSLESS:
        require_lossless(cloud, shared)
        return
    with pytest.raises(TokenizerMismatchError, match=f"cloud large has {NOT_LOSSLESS[name]} that the edge does not"):
        require_lossless(cloud, shared)


@pytest.mark.parametrize(("edge", "cloud"), [(272, 320), (320, 272), (288, 288), (266, 1000)])
def test_paddings_may_differ(edge, cloud):
    pair = tiny_model(1, vocab_size=edge), tiny_model(2, vocab_size=cloud)
    assert Pair.of(*pair).vocab_size == PIECES


@pytest.mark.parametrize("mode", ["lossless", "hybrid"])
def test_a_captioner_asks_the_pair_whether_its_mode_can_be(mode):
    edge, cloud = tiny_model(1), tiny_model(2, merges=3)
    edge.processor.eos_ids = cloud.processor.eos_ids = tuple(range(5, 256, 31))
    pair = Pair.of(edge, cloud)
    if mode == "hybrid":
        assert Captioner(settings(mode=mode), pair).pair.vocab_size == 256
        return
    with pytest.raises(TokenizerMismatchError, match=r"has 3 words that the edge does not have: 256 \('ab'\)"):
        Captioner(settings(mode=mode), pair)


@pytest.mark.slow
def test_ids_beyond_the_common_beginning_are_never_generated():
    """Each model is kept to what both mean alike, and the laws hold with the rest suppressed."""
    edge, cloud = tiny_model(1, merges=3), tiny_model(2)
    ends = tuple(range(5, 256, 31))
    edge.processor.eos_ids = cloud.processor.eos_ids = ends
    pair = Pair.of(edge, cloud)
    assert pair.vocab_size == 256
    for number in range(97_000, 97_010):
        drawn = make_case(number, mode=("lossless", "edge", "cloud")[number % 3], loop_period=0)
        prompts = [model.processor.prompt(drawn.edge_prompt.waveform, "say how") for model in (edge, cloud)]
        case = Case(number, pair, *prompts, drawn.given)
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
