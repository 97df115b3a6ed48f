"""Batch law: a clip's rounds do not depend on how many others are decoded with it, on which, or in which order.

Every batch mixes modes, k, gates (with and without stopping a draft), rules, sampling, penalties and stop rules over
one pair. Each clip runs the same loop in a thread of its own, and must go through the very rounds of the reference.
"""

import gc
import logging
import random
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

import pytest
import torch

from specdec_cli.decoding.block import Block
from specdec_cli.decoding.pair import Pair
from specdec_cli.errors import DecodingError, SpecdecError, UnexpectedError
from specdec_cli.models import engine
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.engine import Engine
from specdec_cli.models.processor import Prompt
from specdec_cli.models.session import Session
from specdec_cli.models.slots import Slots
from tests.laws.cases import Case, Ran, cloud, collect, edge, make_case, mixed, prompt, wordy_edge
from tests.laws.makers import CLOSING
from tests.laws.reference import assert_rounds
from tests.laws.tolerance import cases, most_parting, numbers
from tests.tiers import few, named
from tests.waiting import until

TIMEOUT_S = 300.0  # only a hang takes as long


def batch_of(number: int, size: int | None = None, **fixed: Any) -> list[Case]:
    """2 to 8 clips on one pair."""
    rng = random.Random(number)
    seed, kind = rng.randrange(9), rng.choice(("same", "near", "far", "unrelated"))
    drafter = wordy_edge if fixed.get("closing") == "on" else edge
    pair = Pair.of(drafter(seed, kind), cloud(seed))
    rows = []
    for _ in range(size or rng.randint(2, 8)):
        clip, instruction = rng.randrange(8), rng.randrange(4)
        row = make_case(rng.randrange(10**6), **{**mixed(rng), **fixed})
        edge_prompt, cloud_prompt = (
            prompt(("edge", seed, kind), clip, instruction),
            prompt(("cloud", seed), clip, instruction),
        )
        rows.append(replace(row, pair=pair, edge_prompt=edge_prompt, cloud_prompt=cloud_prompt))
    return rows


def decode_together(
    batch: Sequence[Case], size: int, run: Callable[[Case, Engine], Any] | None = None, slots: int | None = None
) -> list[Ran | SpecdecError]:
    """What becomes of each clip when `size` of them are decoded at a time."""

    def decode(case: Case, models: Engine) -> Any:
        try:
            with models.clip():
                return run(case, models) if run else case.run(models)
        except SpecdecError as error:
            return error

    with Engine(batch[0].pair.loaded, slots or size, encoders=2) as models, ThreadPoolExecutor(size) as executor:
        futures = [executor.submit(decode, case, models) for case in batch]
        _, late = wait(futures, timeout=TIMEOUT_S)
        if late:
            models.close()
        assert not late, f"{len(late)} of {len(batch)} clips hang"
        return [future.result() for future in futures]


def begun_together(clips: int) -> Callable[[Case, Engine], Ran]:
    """Runs a clip once so many are there."""
    there = threading.Barrier(clips)

    def run(case: Case, models: Engine) -> Ran:
        with models.step_aside():
            there.wait(TIMEOUT_S)
        return case.run(models)

    return run


def batch_law(batch: Sequence[Case], size: int) -> list[str]:
    """Every clip of a batch has the reference's rounds; returns how texts part."""
    parted = []
    for case, ran in zip(batch, decode_together([case.remember() for case in batch], size), strict=True):
        assert not isinstance(ran, SpecdecError), ran
        if (how := assert_rounds(case, *ran)) is not None:
            parted.append(how)
    return parted


BATCHES: dict[str, tuple[Callable[[int], list[Case]], int, float]] = {
    "plain": (batch_of, 0, 1.0),
    "closing": (lambda number: batch_of(number, **CLOSING), 900, 0.1),
    "heard": (lambda number: [case.heard() for case in batch_of(number)], 970, 0.1),
}
"""How batches are made, the number of the first, and their share of all clips."""


@pytest.mark.parametrize("name", named(BATCHES, "plain"))
def test_clips_of_a_batch_go_through_their_own_rounds(name, record_property):
    make, first, share = BATCHES[name]
    clips, number, parted = 0, first, list[str]()
    while clips < cases(share):
        batch = make(number)
        parted += batch_law(batch, random.Random(-number).randint(2, len(batch)))
        clips, number = clips + len(batch), number + 1
    record_property("law", f"batch, {name}: {clips} clips in {number - first} batches, {len(parted)} texts part")
    assert len(parted) <= most_parting(clips), parted


@pytest.mark.parametrize("clips", few([2, 1, 5, 16]))
@pytest.mark.parametrize("spare", few([-1, 0, 2]))
def test_slots_change_no_round(clips, spare, monkeypatch):
    """With one too few, a clip's cache grows; clips that fail or are abandoned leave theirs to the next ones."""
    number = next(n for n in range(700, 800) if batch_of(n)[0].edge.slots is not None)
    batch = batch_of(number, clips + 2)
    for model in batch[0].pair.loaded:
        layers = model.module.config.get_text_config(decoder=True).num_hidden_layers
        monkeypatch.setattr(model, "slots", Slots(model.module, layers))
    bad = replace(batch[0], edge_prompt=unsound(batch[0].edge_prompt)).but(mode="edge", acceptance=None)

    for model in batch[0].pair.loaded:
        model.record_graphs()

    def run(case: Case, models: Engine) -> Any:
        if case is batch[1]:
            next(case.loop(models).events())  # its first round, and then it is abandoned
            return None
        return case.run(models)

    seen = decode_together([bad, *batch[1:]], clips, run, max(clips + spare, 1))
    assert isinstance(seen[0], DecodingError)
    for case, ran in zip(batch[2:], seen[2:], strict=True):
        assert not isinstance(ran, SpecdecError), ran
        assert_rounds(case, *ran)


@pytest.fixture
def sizes(monkeypatch) -> list[int]:
    """Clips per forward of an `Engine`."""
    made, forward = list[int](), engine._forward

    def counted(wanted: Any) -> Any:
        made.append(len(wanted))
        return forward(wanted)

    monkeypatch.setattr(engine, "_forward", counted)
    return made


def test_one_forward_serves_all_clips_that_wait_for_it(sizes):
    """Six clips with equal texts, all verified: once all have read their prompts, every forward is for six."""
    case = make_case(7, mode="lossless", k=4, max_new_tokens=12, min_new_tokens=12, loop_period=0)
    read, together = threading.Barrier(6, action=sizes.clear), threading.Barrier(6)

    def run(case: Case, models: Engine) -> Any:
        events = case.loop(models).events()
        first = next(events)  # the first block is committed
        with models.step_aside():
            read.wait(TIMEOUT_S)
        together.wait(TIMEOUT_S)  # all are at work again
        return collect([first, *events])

    seen = decode_together([case.but(seed=seed) for seed in range(6)], 6, run)
    assert len({ran[1].token_ids for ran in seen if not isinstance(ran, SpecdecError)}) == 1
    assert set(sizes) == {6}
    assert len(sizes) >= 6


def test_no_more_clips_share_a_forward_than_allowed(monkeypatch, sizes):
    monkeypatch.setattr(engine, "MOST_CLIPS", 3)
    decode_together(batch_of(12, 7), 7, begun_together(7))
    assert 1 < max(sizes) <= 3  # how many are ready at a time depends on the machine


def test_a_model_whose_clips_cannot_share_a_forward_steps_one_by_one(monkeypatch, sizes):
    batch = batch_of(13, 4, mode="edge", acceptance=None)
    monkeypatch.setattr(batch[0].edge, "joins", False)
    for case, ran in zip(batch, decode_together(batch, 4), strict=True):
        assert not isinstance(ran, SpecdecError)
        assert_rounds(case, *ran)
    assert set(sizes) == {1}


# --- failures ---


def unsound(clip: Prompt) -> Prompt:
    """The prompt with features that are not finite."""
    values = {name: torch.full_like(t, torch.nan) if t.is_floating_point() else t for name, t in clip.audio.items()}
    return replace(clip, audio=values)


def test_a_clip_whose_scores_are_not_finite_fails_alone():
    for number in range(600, 602):
        batch = batch_of(number, 5)
        bad = replace(batch[0], edge_prompt=unsound(batch[0].edge_prompt)).but(mode="edge", acceptance=None)
        seen = decode_together([batch[1], bad, *batch[2:]], 5)
        error = seen.pop(1)
        assert isinstance(error, DecodingError)
        assert "not finite" in error.message
        for case, ran in zip(batch[1:], seen, strict=True):
            assert not isinstance(ran, SpecdecError)
            assert_rounds(case, *ran)


def test_scores_that_turn_bad_in_a_joint_forward_fail_their_clip_alone(monkeypatch):
    batch = batch_of(
        620, 4, mode="edge", acceptance=None, max_new_tokens=12, min_new_tokens=12, stop_strings=(), sentences=None
    )
    scored = Session.vocabulary_rows

    def spoiling(session: Session, logits: torch.Tensor, positions: int, text_length: int) -> torch.Tensor:
        if session.prompt is spoiled and text_length > 4:
            logits = torch.full_like(logits, torch.nan)
        return scored(session, logits, positions, text_length)

    spoiled = replace(batch[2].edge_prompt)
    batch[2] = replace(batch[2], edge_prompt=spoiled)
    monkeypatch.setattr(Session, "vocabulary_rows", spoiling)
    seen = decode_together(batch, 4)
    assert isinstance(seen[2], DecodingError)
    assert not any(isinstance(seen[at], SpecdecError) for at in (0, 1, 3))


@pytest.mark.parametrize("slotted", [False, True])
def test_a_forward_that_fails_is_tried_clip_by_clip(monkeypatch, caplog, *, slotted):
    """As when memory suffices for one clip but not for all of them."""
    fixed = {"mode": "edge", "loop_period": 0, "max_new_tokens": 10, "min_new_tokens": 10}
    drawn = (make_case(number, **fixed) for number in range(9, 30))
    case = next(case for case in drawn if (case.edge.slots is not None) == slotted)
    batch = [case.but(seed=seed) for seed in range(3)]
    forward, step = AudioLM.forward, Slots.logits

    def small(model: AudioLM, *args: Any, mask: Any = None, **kwargs: Any) -> Any:
        found = forward(model, *args, mask=mask, **kwargs)
        if mask is not None:  # the caches have taken everything in
            raise RuntimeError("not enough memory")
        return found

    def small_step(slots: Slots, feeds: Any, caches: Any) -> Any:
        found = step(slots, feeds, caches)
        if len(feeds) > 1:
            raise RuntimeError("not enough memory")
        return found

    monkeypatch.setattr(AudioLM, "forward", small)
    monkeypatch.setattr(Slots, "logits", small_step)
    with caplog.at_level(logging.WARNING):
        seen = decode_together(batch, 3, begun_together(3))
    for clip, ran in zip(batch, seen, strict=True):
        assert not isinstance(ran, SpecdecError), ran
        assert_rounds(clip, *ran)
    assert "could not share a forward" in caplog.text

    def broken(model: AudioLM, ids: Any, *args: Any, **kwargs: Any) -> Any:
        if len(ids) < 20:
            raise RuntimeError("not enough memory")
        return forward(model, ids, *args, **kwargs)

    monkeypatch.setattr(AudioLM, "forward", broken)
    for ran in decode_together(batch, 3):
        assert isinstance(ran, UnexpectedError)
        assert "not enough memory" in ran.message


# --- endings ---


def test_a_clip_closed_half_way_leaves_the_others_going():
    def abandoned(case: Case, models: Engine) -> Any:
        if case is not batch[1]:
            return case.run(models)
        events = case.loop(models).events()
        for event in events:
            if isinstance(event, Block):
                break
        events.close()
        return None

    for number in numbers(640, 0.2):
        batch = batch_of(number, 4)
        seen = decode_together(batch, 4, abandoned)
        assert seen[1] is None
        for at in (0, 2, 3):
            assert not isinstance(seen[at], SpecdecError), seen[at]
            assert_rounds(batch[at], *seen[at])


@pytest.mark.parametrize("mode", ["edge", "lossless"])
def test_closing_ends_every_clip_with_a_typed_error(mode):
    """One clip holds the others back, so that their scores are waited for when the models are closed."""
    case = make_case(11, mode=mode, max_new_tokens=18, min_new_tokens=18, loop_period=0)
    models, errors = Engine(), list[BaseException]()

    def run() -> None:
        try:
            with models.clip():
                collect(case.loop(models).events())
        except SpecdecError as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    with models.clip():  # at work for ever
        for thread in threads:
            thread.start()
        assert until(lambda: sum(map(len, models._waiting.values())) == 4)
        models.close()
        for thread in threads:
            thread.join(TIMEOUT_S)
    assert not any(thread.is_alive() for thread in threads)
    assert len(errors) == 4
    assert all(isinstance(error, DecodingError) for error in errors), errors
    with pytest.raises(DecodingError, match="shutting down"):
        case.run(models)


def test_the_serving_thread_keeps_no_finished_clip():
    case = make_case(14, mode="lossless", max_new_tokens=8)
    with Engine() as models:
        loop = case.loop(models)
        with models.clip():
            collect(loop.events())
            sessions = [weakref.ref(part.session) for part in (loop.drafter, loop.verifier)]
            caches = [weakref.ref(ref().cache) for ref in sessions]
        del loop
        gc.collect()
        assert until(lambda: [ref() for ref in (*sessions, *caches)] == [None] * 4)  # its thread may be returning yet
