"""Waits for the device, counted as calls that turn tensors into numbers: on a CPU they cost nothing, on a GPU most."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

import specdec_cli
from specdec_cli.decoding import draft
from specdec_cli.types import Finished
from tests.mini_pair import RATE, captioner, voice
from tests.tiers import few

PACKAGE = str(Path(specdec_cli.__file__).parent)
FETCHES = ("__int__", "__float__", "__bool__", "item", "tolist", "cpu", "numpy")


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Counts the calls within the package, by file and line."""
    found: Counter[str] = Counter()

    def counting(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            caller = sys._getframe(1)
            if caller.f_code.co_filename.startswith(PACKAGE):
                found[f"{Path(caller.f_code.co_filename).name}:{caller.f_lineno}"] += 1
            return call(*args, **kwargs)

        return wrapped

    with pytest.MonkeyPatch.context() as patched:
        for name in FETCHES:
            patched.setattr(torch.Tensor, name, counting(getattr(torch.Tensor, name)))
        yield found


def waits(monkeypatch: pytest.MonkeyPatch, *, listens: bool, **settings: float) -> Counter[str]:
    """Of a lossless caption of 34 tokens in blocks of five; `listens`: whether the sound decides classes."""
    monkeypatch.setitem(draft.UNREAD_TOKENS, "cpu", 8)  # as on a GPU
    given = {"k": 5, "guess_tokens": 0, "max_new_tokens": 34, "min_new_tokens": 34, **settings}
    speaker = captioner(decoding__mode="lossless", **{f"decoding__{name}": value for name, value in given.items()})
    run = speaker.run_samples(voice(3), RATE, name="voice")
    assert run.prompts is not None
    loop = speaker.pair.loop(speaker.config, run.prompts, speaker.gate, grounding=run.grounding if listens else None)
    with counted() as calls:
        *_, finished = loop.events()
    assert isinstance(finished, Finished)
    assert len(finished.token_ids) == 34
    return calls


@pytest.mark.parametrize("penalties", few([{"repetition_penalty": 1.1}, {}, {"no_repeat_ngram": 4}]))
def test_a_lossless_caption_waits_once_a_block_and_model(monkeypatch, penalties):
    calls = waits(monkeypatch, listens=False, **penalties)
    assert calls.total() <= 16, calls


def test_where_the_sound_decides_it_waits_once_a_token_more_and_once_a_ban(monkeypatch):
    calls = waits(monkeypatch, listens=True)
    assert calls.total() <= 56, calls
