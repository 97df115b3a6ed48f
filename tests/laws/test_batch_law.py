"""Batch law: what a clip says does not depend on how many others are decoded with it, on which, or in which order.

Every batch mixes modes, k, gates (with and without stopping a draft), rules, sampling, penalties and stop rules over
one pair; rows join while others are under way. Each row must go through the very rounds that it goes through alone.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import fields, replace
from typing import Any

import pytest
import torch

from specdec_cli.decoding.build import Pair, build_engine
from specdec_cli.decoding.engine import Engine
from specdec_cli.decoding.rows import Rows
from specdec_cli.errors import DecodingError, SpecdecError, UnexpectedError
from specdec_cli.models.family import PromptInputs
from specdec_cli.types import Event, Finished, Round
from tests.laws.cases import Case, cloud, edge, inputs, make_case

BATCHES = 320
CHUNK = 16
TIMES = ("draft_ms", "verify_ms")


def _options(rng: random.Random) -> dict[str, Any]:
    """Settings that `make_case` does not draw."""
    mode = rng.choice(("hybrid", "hybrid", "hybrid", "lossless", "edge", "cloud"))
    temperature = rng.choice((0.0, 0.0, 0.7, 1.2))
    rule = None
    if mode == "hybrid":
        rule = rng.choice(("sampling" if temperature else "greedy", "rank", "prob", "typical"))
    drawn: dict[str, Any] = {
        "mode": mode,
        "acceptance": rule,
        "temperature": temperature,
        "top_k": rng.choice((None, 12)),
        "top_p": rng.choice((None, 0.9)),
        "cloud_prefill": "early" if rng.random() < 0.2 else "lazy",
        "stop_strings": rng.choice(((), (), tuple("aeiou"), ("Q", "zz"))),
        "sentences": rng.choice((None, None, 1)),
    }
    if rng.random() < 0.2:
        drawn["gate"] = rng.choice(("always", "never"))
        drawn["threshold"] = None
    if rng.random() < 0.25:  # inclined to loop
        drawn |= {"loop_period": 8, "loop_repeats": 2, "repetition_penalty": 0.6, "no_repeat_ngram": 0}
        drawn |= {"max_new_tokens": 18, "stop_strings": (), "sentences": None}
    if rng.random() < 0.2:
        drawn |= {"k": "auto", "cost_ratio": rng.choice((0.05, 0.2, 0.8, 2.0))}
    return drawn


def _batch(number: int) -> list[Case]:
    """2 to 8 rows on one pair."""
    rng = random.Random(number)
    seed, kind = rng.randrange(9), rng.choice(("same", "near", "far", "unrelated"))
    pair = Pair.of(edge(seed, kind), cloud(seed))
    rows = []
    for _ in range(rng.randint(2, 8)):
        clip, instruction = rng.randrange(8), rng.randrange(4)
        row = make_case(rng.randrange(10**6), **_options(rng))
        edge_inputs = inputs(("edge", seed, kind), clip, instruction)
        cloud_inputs = inputs(("cloud", seed), clip, instruction)
        rows.append(replace(row, pair=pair, edge_inputs=edge_inputs, cloud_inputs=cloud_inputs))
    return rows


def _engine(case: Case) -> Engine:
    return build_engine(case.pair, case.options, case.edge_inputs, case.cloud_inputs)


def _decode(batch: list[Case], size: int, patience: int) -> dict[int, list[Event | SpecdecError]]:
    """What happens to each row when `size` of them are in flight at a time."""
    rows: Rows[int] = Rows(patience)
    waiting = list(range(len(batch)))
    seen: dict[int, list[Event | SpecdecError]] = {index: [] for index in waiting}
    while waiting or len(rows):
        happened: list[tuple[int, Event | SpecdecError]] = []
        while waiting and len(rows) < size:
            index = waiting.pop(0)
            happened += rows.admit(index, _engine(batch[index]))
        happened += rows.step()
        for index, event in happened:
            seen[index].append(event)
    return seen


def _said(events: Any) -> list[Any]:
    """Rounds without their times, and the end."""
    said: list[Any] = []
    for event in events:
        if isinstance(event, Round):
            said.append({f.name: getattr(event, f.name) for f in fields(event) if f.name not in TIMES})
        elif isinstance(event, Finished):
            edge_work, cloud_work = (
                work and (work.encoder_passes, work.forwards, work.fed_tokens) for work in (event.edge, event.cloud)
            )
            said.append((event.token_ids, event.finish_reason, edge_work, cloud_work))
    return said


@pytest.mark.parametrize("chunk", range(BATCHES // CHUNK))
def test_rows_say_what_they_say_alone(chunk: int) -> None:
    for number in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        batch, rng = _batch(number), random.Random(-number)
        together = _decode(batch, rng.randint(2, len(batch)), rng.randint(1, 6))
        for index, case in enumerate(batch):
            assert _said(together[index]) == _said(_engine(case).run()), (number, index)


def test_batches_are_mixed() -> None:
    """Guards the test above against drawing only trivial batches."""
    modes, ends, reasons, cut = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for number in range(40):
        for case in _batch(number):
            modes[case.options.mode] += 1
            events = list(_engine(case).run())
            assert isinstance(events[-1], Finished)
            ends[events[-1].finish_reason] += 1
            reasons.update(str(event.reason) for event in events if isinstance(event, Round))
            cut.update(_cut_short(case, events))
    assert set(modes) == {"hybrid", "lossless", "edge", "cloud"}
    assert set(ends) == {"eos", "max_tokens", "stop_string", "sentences", "loop"}
    assert set(reasons) >= {"entropy", "margin", "logprob", "learned", "random", "loop", "always", "None"}
    assert set(cut) == {"entropy", "margin", "logprob", "learned"}


def _cut_short(case: Case, events: list[Event]) -> list[str]:
    """The gate of every block that ended early with a token at which a draft may only end if the gate says so."""
    options, drawn, ends = case.options, 0, []
    if options.k == "auto":  # such blocks end early for another reason, too
        return ends
    for event in events:
        if not isinstance(event, Round):
            continue
        whole = min(options.k, options.max_new_tokens - drawn)
        if (
            options.stop_drafting
            and len(event.draft_ids) < whole
            and event.draft_ids[-1] not in case.pair.writer.eos_ids
        ):
            ends.append(str(options.gate))
        drawn += len(event.committed_ids)
    return ends


def test_the_order_of_the_rows_does_not_matter() -> None:
    for number in range(500, 510):
        batch = _batch(number)
        forth, back = _decode(batch, 3, 2), _decode(batch[::-1], 3, 2)
        assert [_said(forth[i]) for i in range(len(batch))] == [_said(back[i]) for i in range(len(batch))][::-1]


def _spans(monkeypatch: pytest.MonkeyPatch, model: Any) -> list[list[int]]:
    """Tokens per clip of every forward that a model makes from now on."""
    seen: list[list[int]] = []
    decode_together = model.decode_together

    def spying(embeddings: torch.Tensor, spans: Any) -> torch.Tensor:
        seen.append([span.length for span in spans])
        return decode_together(embeddings, spans)  # type: ignore[no-any-return]

    monkeypatch.setattr(model, "decode_together", spying)
    return seen


def test_one_forward_serves_all_rows_that_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six rows, all verified: as many forwards as one row makes, each of them for six."""
    case = make_case(7, mode="lossless", k=4, max_new_tokens=12, min_new_tokens=12, loop_period=0)
    batch = [replace(case, options=replace(case.options, seed=seed)) for seed in range(6)]
    drafting, verifying = _spans(monkeypatch, case.pair.edge), _spans(monkeypatch, case.pair.cloud)
    finished = list(_engine(case).run())[-1]
    assert isinstance(finished, Finished)
    alone = len(drafting), len(verifying)
    drafting.clear()
    verifying.clear()
    _decode(batch, 6, 4)
    assert (len(drafting), len(verifying)) == alone
    assert {len(spans) for spans in (*drafting, *verifying)} == {6}


def test_a_row_that_is_done_makes_room_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One long row and many short ones, two at a time: the short ones pass through beside the long one."""
    long = make_case(3, mode="edge", k=1, max_new_tokens=18, min_new_tokens=18, loop_period=0)
    short = replace(long, options=replace(long.options, max_new_tokens=3, min_new_tokens=3))
    forwards = _spans(monkeypatch, long.pair.edge)
    seen = _decode([long, *[short] * 6], 2, 1)
    assert all(isinstance(events[-1], Finished) for events in seen.values())
    assert [len(spans) for spans in forwards] == [2] * 18


def _unsound(prompt: PromptInputs) -> PromptInputs:
    """The prompt with features that are not finite."""
    features = replace(prompt.features, values=torch.full_like(prompt.features.values, torch.nan))
    return replace(prompt, features=features)


def test_a_bad_row_costs_the_others_nothing() -> None:
    for number in range(600, 610):
        batch = _batch(number)
        bad = replace(batch[0], edge_inputs=_unsound(batch[0].edge_inputs))
        bad = replace(bad, options=replace(bad.options, mode="edge", acceptance=None))
        seen = _decode([batch[1], bad, *batch[1:]], 3, 2)
        (error,) = seen[1]
        assert isinstance(error, DecodingError)
        assert "not finite" in error.message
        for index, case in ((0, batch[1]), *enumerate(batch[1:], start=2)):
            assert _said(seen[index]) == _said(_engine(case).run())


def test_a_forward_that_fails_is_tried_row_by_row(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """As when memory suffices for one clip but not for all of them."""
    batch = [make_case(9, mode="edge", seed=seed) for seed in range(3)]
    expected = [_said(_engine(case).run()) for case in batch]
    model: Any = batch[0].pair.edge
    decode_together = model.decode_together

    def small(embeddings: torch.Tensor, spans: Any) -> torch.Tensor:
        if len(spans) > 1:
            raise RuntimeError("not enough memory")
        return decode_together(embeddings, spans)  # type: ignore[no-any-return]

    monkeypatch.setattr(model, "decode_together", small)
    seen = _decode(batch, 3, 2)
    assert [_said(seen[index]) for index in range(3)] == expected
    assert "could not share a forward" in caplog.text

    def broken(_embeddings: torch.Tensor, _spans: Any) -> torch.Tensor:
        raise RuntimeError("not enough memory")

    monkeypatch.setattr(model, "decode_together", broken)
    for events in _decode(batch, 3, 2).values():
        (error,) = events
        assert isinstance(error, UnexpectedError)
        assert "not enough memory" in error.message


def test_closing_leaves_every_session_clean() -> None:
    for number in range(700, 720):
        batch = _batch(number)
        rows: Rows[int] = Rows(2)
        engines = [_engine(case) for case in batch]
        for index, engine in enumerate(engines):
            rows.admit(index, engine)
        for _ in range(number % 7):
            if len(rows):
                rows.step()
        rows.close()
        assert len(rows) == 0
        for engine in engines:
            cached = engine._drafter.session.cached_text
            assert cached == engine.text[: len(cached)]
