"""Cache law and once law: a cache holds a prefix of prompt and text, each with its own position; nothing is fed twice.

So the audio is encoded once per model, and not at all by a cloud that is not called.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from transformers.cache_utils import Cache

from specdec_cli.decoding.block import Block
from specdec_cli.decoding.loop import Loop
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.session import Session
from specdec_cli.types import Finished
from tests.laws.cases import Case, collect, make_case
from tests.laws.tolerance import LawBroken, numbers

MODES = ("hybrid", "lossless", "edge", "cloud")


def sessions_of(loop: Loop) -> list[Session]:
    """The sessions of a local loop."""
    found: list[Any] = [loop.drafter, loop.verifier]
    return [part.session for part in found if part is not None]


class Fed:
    """What was fed to a model, from its forwards: every prefix of prompt and text once."""

    def __init__(self) -> None:
        self._tokens: dict[int, list[int]] = {}  # by cache
        self._caches: list[Any] = []  # alive, so that their identities stay
        self._seen: set[tuple[int, ...]] = set()

    def feed(self, ids: list[int], start: int, cache: Any, audio: bool) -> None:
        """One forward: `ids` from position `start` on.

        Raises:
            LawBroken: a prefix was fed before, or the audio is not fed with the prompt.
        """
        if cache.get_seq_length() != start:
            raise LawBroken(f"a cache of {cache.get_seq_length()} positions is continued at {start}")
        if audio != (start == 0):
            raise LawBroken("the audio is read with the prompt, and only then")
        self._caches.append(cache)
        tokens = self._tokens.setdefault(id(cache), [])
        del tokens[start:]
        for id_ in ids:
            tokens.append(id_)
            if tuple(tokens) in self._seen:
                raise LawBroken(f"fed twice: {len(tokens)} tokens")
            self._seen.add(tuple(tokens))

    def __len__(self) -> int:
        """Tokens fed, of prompt and text."""
        return len(self._seen)


@contextmanager
def recorded(model: AudioLM) -> Iterator[Fed]:
    """Records what is fed to a model by one clip."""
    fed, forward = Fed(), model.forward

    def recording(ids: Any, positions: torch.Tensor, cache: Any, rows: Any, audio: Any = None) -> Any:
        assert positions.tolist() == list(range(int(positions[0]), int(positions[0]) + len(ids)))
        fed.feed(list(ids), int(positions[0]), cache, audio is not None)
        return forward(ids, positions, cache, rows, audio)

    model.forward = recording
    try:
        yield fed
    finally:
        model.forward = forward


def fed_once_law(case: Case) -> str | None:
    """Neither model is fed a prefix twice, and the account of the work is that of the forwards.

    Without guesses: one that a draft overruled, and the cloud after all confirms, is fed again.
    """
    case = case.but(guess_tokens=0)
    with recorded(case.edge) as to_edge, recorded(case.cloud) as to_cloud:
        rounds, finished = case.run()
    lazy = case.given["mode"] == "hybrid" and case.given["cloud_prefill"] == "lazy"
    called = finished.cloud is not None and finished.cloud.forwards > 0
    if lazy and called != any(round_.escalated for round_ in rounds):
        raise LawBroken(f"case {case.number}: whether the cloud reads the clip is not what the rounds say")
    for fed, work in ((to_edge, finished.edge), (to_cloud, finished.cloud)):
        read = work.prompt_tokens + work.fed_tokens if work is not None and work.forwards else 0
        if len(fed) != read:
            raise LawBroken(f"case {case.number}: {len(fed)} tokens were fed, and {read} are accounted for")
        if work is not None and work.encoder_passes != (work.forwards > 0):
            raise LawBroken(f"case {case.number}: {work.encoder_passes} encoder passes")
    return None


def once_case(number: int) -> Case:
    """Any mode; without loops, since what is drafted anew from the same text is fed again."""
    prefill = ("lazy", "early", "overlap")[number // 4 % 3]
    return make_case(number, mode=MODES[number % 4], loop_period=0, cloud_prefill=prefill)


def clean_law(case: Case) -> str | None:
    """After every round each cache holds a prefix of the text, with something left to feed."""
    loop = case.remember().loop()
    for event in loop.events():
        if isinstance(event, Block):
            for session in sessions_of(loop):
                _assert_clean(session, loop.text_ids)
    return None


def _assert_clean(session: Session, text: tuple[int, ...]) -> None:
    if session.cache is None:
        return
    common = 0
    while common < min(len(session.fed), len(text)) and session.fed[common] == text[common]:
        common += 1
    lengths = {layer.get_seq_length() for layer in session.cache.layers}
    if lengths != {len(session.prompt.ids) + len(session.fed)}:
        raise LawBroken(f"layers of {lengths} positions, and {session.length} were fed")
    lacking = session.align(text, 1)
    if not lacking or session.fed != list(text[: len(session.fed)]) or len(session.fed) < min(common, len(text) - 1):
        raise LawBroken(f"{session.fed} is kept of {text}")


@pytest.mark.parametrize("check", [fed_once_law, clean_law])
def test_caches_follow_the_text(law, check):
    law(f"cache, {check.__name__}", map(once_case, numbers(70_000, 0.5)), check)


def test_a_clip_that_ends_while_the_cloud_reads_it_counts_that_work():
    """Until the reading is done, its session counts as empty; afterwards its forward is in the account."""
    case = make_case(74_000, mode="hybrid", gate="never", cloud_prefill="overlap", max_new_tokens=4, loop_period=0)
    loop, reading, ended = case.loop(), threading.Event(), threading.Event()
    forward = case.cloud.forward

    def slow(*args: Any, **kwargs: Any) -> Any:
        scored = forward(*args, **kwargs)
        reading.set()
        assert ended.wait(120)
        return scored

    case.cloud.forward = slow
    try:
        for event in loop.events():
            if isinstance(event, Block):
                assert reading.wait(120)
                for session in sessions_of(loop):
                    _assert_clean(session, loop.text_ids)
                if loop.stop.first_stop(loop.text_ids, 0):
                    ended.set()
    finally:
        ended.set()
        case.cloud.forward = forward
    assert isinstance(event, Finished)
    assert (event.cloud.forwards, event.cloud.encoder_passes) == (1, 1)


def test_a_clip_interrupted_in_a_forward_can_be_decoded_again(monkeypatch):
    """The interrupt comes while layers take new keys: the first has them, and the second not."""
    update, interrupted = Cache.update, 0
    for number in (73_007, 73_008, 73_011, 73_015):  # models of two layers
        lengths = {"max_new_tokens": 16, "min_new_tokens": 8, "loop_period": 0}
        case = make_case(number, mode="hybrid", k=6, gate="entropy", guess_tokens=0, **lengths)
        for model in (case.edge, case.cloud):
            monkeypatch.setattr(model, "slots", None)  # a recorded forward takes its keys all at once
        expected = case.run()[1].token_ids
        loop, forwards = case.loop(), 0

        def breaking(cache: Any, keys: Any, values: Any, layer: int, *args: Any, **kwargs: Any) -> Any:
            nonlocal forwards
            forwards += layer == 0
            if forwards >= 3 and layer == 1:
                raise KeyboardInterrupt
            return update(cache, keys, values, layer, *args, **kwargs)

        monkeypatch.setattr(Cache, "update", breaking)
        try:
            list(loop.events())
        except KeyboardInterrupt:
            interrupted += 1
        monkeypatch.setattr(Cache, "update", update)
        again = case.loop()  # the same sessions, from the start
        again.drafter, again.verifier = loop.drafter, loop.verifier
        assert collect(again.events())[1].token_ids == expected
    assert interrupted == 4
