"""Cache law: before every round, each cache holds exactly a prefix of prompt + text, with something left to feed.

And nothing is fed twice: no model ever sees the same prefix of the text at the same position again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from specdec_cli.decoding.build import build_engine
from specdec_cli.decoding.engine import Engine
from specdec_cli.decoding.verify import SessionVerifier
from specdec_cli.models.session import Session
from specdec_cli.types import Round
from tests.laws.cases import Case, collect, make_case


def _engine(case: Case) -> Engine:
    return build_engine(case.pair, case.options, case.edge_inputs, case.cloud_inputs)


def _sessions(engine: Engine) -> list[Session]:
    sessions = [engine._drafter.session]
    if isinstance(engine._cloud._verifier, SessionVerifier):
        sessions.append(engine._cloud._verifier.session)
    return sessions


def _assert_clean(session: Session, text: Sequence[int]) -> None:
    cached = session.cached_text
    assert cached == tuple(text[: len(cached)])
    assert session.length < len(session.prompt_ids) + len(text)
    for layer in session._cache.layers:
        assert layer.get_seq_length() == session.length


@pytest.mark.parametrize("mode", ["hybrid", "lossless", "edge", "cloud"])
def test_caches_hold_a_prefix_of_the_text_before_every_round(mode: Any) -> None:
    rounds = 0
    for number in range(70_000, 70_060):
        engine = _engine(make_case(number, mode=mode))
        for event in engine.run():
            if isinstance(event, Round):
                rounds += 1
                for session in _sessions(engine):
                    _assert_clean(session, engine.text)
    assert rounds > 100


@pytest.mark.parametrize("mode", ["hybrid", "lossless", "edge", "cloud"])
def test_nothing_is_fed_twice(mode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fed: dict[int, list[tuple[int, ...]]] = {}
    feed = Session._feed

    def recording(session: Session, tokens: Sequence[int], positions: int) -> torch.Tensor:
        known = (*session.prompt_ids[: session._prompt_cached], *session.cached_text)
        seen = fed.setdefault(id(session), [])
        for i in range(len(tokens)):
            prefix = (*known, *tokens[: i + 1])
            assert prefix not in seen, f"fed twice: {len(prefix)} tokens"
            seen.append(prefix)
        return feed(session, tokens, positions)

    monkeypatch.setattr(Session, "_feed", recording)
    for number in range(71_000, 71_030):
        case = make_case(number, mode=mode, loop_period=0)
        _, finished = collect(_engine(case).run())
        for work in (finished.edge, finished.cloud):
            if work is not None and work.forwards:
                assert work.encoder_passes == 1
        fed.clear()


@pytest.mark.parametrize("stop_after", [1, 2, 3])
def test_an_abandoned_stream_leaves_both_sessions_clean(stop_after: int) -> None:
    for number in range(72_000, 72_030):
        case = make_case(number, mode="hybrid", max_new_tokens=18)
        engine = _engine(case)
        events = engine.run()
        for _ in range(stop_after):
            next(events)
        events.close()  # type: ignore[attr-defined]
        for session in _sessions(engine):
            _assert_clean(session, engine.text)


def test_a_drafter_interrupted_in_the_middle_of_a_block_can_be_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interrupt comes inside a forward: the cache of the drafter is ahead of the text, layers at odds."""
    for number in range(73_000, 73_020):
        case = make_case(number, mode="hybrid", k=6, max_new_tokens=16, loop_period=0)
        expected = case.run()[1].token_ids
        engine = _engine(case)
        drafter = _sessions(engine)[0]
        calls = 0
        update = type(drafter._cache.layers[0]).update

        def interrupted(layer: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == 4:
                raise KeyboardInterrupt
            return update(layer, *args, **kwargs)  # noqa: B023

        monkeypatch.setattr(type(drafter._cache.layers[0]), "update", interrupted)
        with pytest.raises(KeyboardInterrupt):
            list(engine.run())
        monkeypatch.setattr(type(drafter._cache.layers[0]), "update", update)
        for session in _sessions(engine):
            assert session.cached_text == engine.text[: len(session.cached_text)]
            assert all(layer.get_seq_length() == session.length for layer in session._cache.layers)
        gate = _engine(case)._gate  # the random one has drawn already
        # same sessions, same caches, from the start
        again = Engine(engine._drafter, engine._cloud._verifier, gate, engine._stopping, case.options)
        if not case.options.sampling:
            assert collect(again.run())[1].token_ids == expected


def test_a_session_refuses_to_go_on_from_a_cache_that_is_ahead_of_the_text() -> None:
    from specdec_cli.errors import CacheError

    case = make_case(74_000, mode="edge")
    session = _sessions(_engine(case))[0]
    session.advance([5, 6, 7], 1)
    with pytest.raises(CacheError, match="not the text's"):
        session.advance([5, 9, 7], 1)
    with pytest.raises(CacheError, match="still to be fed"):
        session.advance([5, 6, 7], 1)
    session.rollback([5, 9, 7])
    assert session.cached_text == (5,)
