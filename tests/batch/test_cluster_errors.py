"""What may go wrong on a cluster, without one: nodes with other models, and errors of Ray."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from specdec_cli.batch.cluster import RayBackend
from specdec_cli.batch.tasks import Outcome, Task
from specdec_cli.errors import CheckpointError, UnexpectedError
from specdec_cli.inputs.recording import InputFile
from specdec_cli.transcript.records import ModelInfo, Models
from tests.batch.lines import SETTINGS, good_line


class RayError(Exception):
    """As Ray's own: the base of all."""


def models(weights: str) -> Models:
    return Models(edge=ModelInfo(name="edge", dtype="float32", device="cpu", weights=weights), cloud=None)


def answer(value: Any) -> SimpleNamespace:
    """A method of an actor that gives `value`, or raises it."""
    return SimpleNamespace(remote=lambda *given: (value, given))


def actor(weights: str, caption: Exception | None = None) -> SimpleNamespace:
    setup = SimpleNamespace(models=models(weights), settings=SETTINGS)

    def captioned(tasks: list[Task]) -> list[Outcome]:
        return [Outcome(task.item, good_line(task.item.path, models=models(weights))) for task in tasks]

    return SimpleNamespace(setup=answer(setup), caption=answer(caption or captioned), stop=answer(None))


def backend(*actors: SimpleNamespace) -> RayBackend:
    def get(reference: Any) -> Any:
        if isinstance(reference, list):
            return [get(one) for one in reference]
        value, given = reference
        if isinstance(value, Exception):
            raise value
        return value(*given) if callable(value) else value

    class Handle(tuple):  # type: ignore[type-arg]  # one answer of an actor: hashable whatever it holds
        __hash__ = object.__hash__
        __eq__ = object.__eq__

    for one in actors:
        ask = one.caption.remote
        one.caption = SimpleNamespace(remote=lambda *given, ask=ask: Handle(ask(*given)))
    made = RayBackend.__new__(RayBackend)
    made._ray = SimpleNamespace(
        get=get,
        wait=lambda running, timeout: (running[:1], running[1:]),
        exceptions=SimpleNamespace(RayError=RayError),
    )
    made._actors, made._chunk = list(actors), 4
    return made


def captioned(made: RayBackend) -> list[Outcome]:
    made._take_setup()
    outcomes: list[Outcome] = []
    made.run([Task(InputFile(f"{n}.wav")) for n in range(10)], outcomes.append, lambda: False)
    return outcomes


def test_every_actor_s_models_are_compared() -> None:
    assert len(captioned(backend(actor("1"), actor("1")))) == 10
    with pytest.raises(CheckpointError, match=r"different models: edge\.weights is '1' and '2'"):
        captioned(backend(actor("1"), actor("1"), actor("2")))


def test_an_actor_that_was_started_again_with_other_models_is_found_out() -> None:
    made = backend(actor("1"), actor("1"))
    made._actors[1].caption = backend(actor("2"))._actors[0].caption
    with pytest.raises(CheckpointError, match="different models"):
        captioned(made)


def test_what_ray_cannot_mend_is_an_error_of_ours() -> None:
    with pytest.raises(UnexpectedError, match="ValueError: no"):
        captioned(backend(actor("1", RayError("Traceback\nValueError: no"))))
