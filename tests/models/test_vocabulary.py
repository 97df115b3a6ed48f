"""Two models may work together exactly if their token ids mean the same; padded output layers do not matter."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from specdec_cli.decoding.build import Pair
from specdec_cli.errors import CheckpointError, TokenizerMismatchError
from specdec_cli.models.vocabulary import shared_vocab_size, usable_vocab_size
from tests.models.checkpoints import load
from tests.tiny import tiny_model

PIECES = 266  # 256 bytes and ten special tokens


class _Vocabulary:
    def __init__(self, pieces: Mapping[str, int]) -> None:
        self._pieces = dict(pieces)

    def get_vocab(self) -> dict[str, int]:
        return self._pieces


def _with(pieces: Mapping[str, int], vocab_size: int = 10, name: str = "m") -> Any:
    model = copy.copy(tiny_model(0))
    model.name, model.vocab_size = name, vocab_size
    model.tokenizer = _Vocabulary(pieces)
    return model


@pytest.mark.parametrize(("edge", "cloud"), [(272, 320), (320, 272), (288, 288), (266, 1000)])
def test_paddings_may_differ(edge: int, cloud: int) -> None:
    pair = tiny_model(1, vocab_size=edge), tiny_model(2, vocab_size=cloud)
    assert shared_vocab_size(*pair) == PIECES
    assert Pair.of(*pair).vocab_size == PIECES


def test_a_model_alone_is_cut_like_in_company() -> None:
    assert usable_vocab_size(tiny_model(1, vocab_size=320)) == PIECES
    assert Pair.of(tiny_model(1, vocab_size=320), None).vocab_size == PIECES
    assert Pair.of(None, tiny_model(1, vocab_size=320)).vocab_size == PIECES


@pytest.mark.parametrize(
    ("pieces", "rows", "usable"),
    [({"a": 0, "b": 1}, 10, 2), ({"a": 0, "b": 1}, 1, 1), ({"a": 0, "z": 7}, 10, 8), ({"z": 7, "a": 0}, 5, 5)],
)
def test_usable_ids_have_a_row_and_a_piece(pieces: dict[str, int], rows: int, usable: int) -> None:
    assert usable_vocab_size(_with(pieces, rows)) == usable


@pytest.mark.parametrize(
    ("mine", "theirs", "at"),
    [
        ({"a": 0, "b": 1}, {"a": 1, "b": 0}, "at id 0, 'a'"),
        ({"a": 0, "b": 1}, {"a": 0, "c": 1}, "at id 1, 'b'"),
        ({"a": 0}, {"a": 0, "b": 1}, "at id 1, 'b'"),
        ({"a": 0, "b": 1, "q": 2}, {"a": 0, "b": 1}, "at id 2, 'q'"),
        ({"A": 0}, {"a": 0}, "at id 0, 'A'"),
    ],
)
def test_different_tokenizers_are_refused_with_both_names(
    mine: dict[str, int], theirs: dict[str, int], at: str
) -> None:
    edge, cloud = _with(mine, name="small"), _with(theirs, name="large")
    with pytest.raises(TokenizerMismatchError) as error:
        shared_vocab_size(edge, cloud)
    assert error.value.message == (
        f"edge small and cloud large have different tokenizers ({len(mine)} and {len(theirs)} tokens; "
        f"they first differ {at})"
    )
    assert "one family" in str(error.value.hint)
    assert isinstance(error.value, CheckpointError)


def test_a_tokenizer_with_a_few_more_pieces_is_refused() -> None:
    with pytest.raises(TokenizerMismatchError, match=r"edge tiny-1 and cloud tiny-2 .*266 and 269 tokens"):
        Pair.of(tiny_model(1), tiny_model(2, merges=3))


def test_the_two_layouts_of_one_model_may_work_together(thinker_dir: Any, hub_dir: Any) -> None:
    assert Pair.of(load(thinker_dir), load(hub_dir, "cloud")).vocab_size == PIECES
