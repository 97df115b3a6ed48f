"""What may go wrong on a cluster, without one: nodes with other models, and errors of Ray."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from specdec_cli.captioning.cluster import CHUNK, RayBackend, Worker
from specdec_cli.captioning.output_file import Task
from specdec_cli.captioning.tasks import Outcome, Stopped
from specdec_cli.errors import CheckpointError, UnexpectedError
from specdec_cli.inputs.recording import InputFile
from specdec_cli.transcript.records import ModelInfo, Models
from tests.support.transcripts import SETTINGS, good_line


class RayError(Exception):
    """As Ray's own: the base of all."""


class Answer:
    """What `ray.get` gives, or raises."""

    def __init__(self, value: Any) -> None:
        self.value = value


def made_by(weights: str) -> dict[str, Any]:
    edge = ModelInfo(name="edge", dtype="float32", device="cpu", weights=weights)
    return {"models": Models(edge=edge, cloud=None), "settings": SETTINGS}


def actor(weights: str, later: str | Exception | None = None) -> SimpleNamespace:
    """One that loaded these weights; `later`: those that it captions with, or what goes wrong."""

    def caption(tasks: list[Task]) -> Answer:
        if isinstance(later, Exception):
            return Answer(later)
        lines = [good_line(task.item.path, **made_by(later or weights)) for task in tasks]
        return Answer([Outcome(task.item, line) for task, line in zip(tasks, lines, strict=True)])

    shared = Answer(SimpleNamespace(**made_by(weights)))
    return SimpleNamespace(shared=SimpleNamespace(remote=lambda: shared), caption=SimpleNamespace(remote=caption))


def captioned(*actors: SimpleNamespace, stopped: Stopped = lambda: False) -> list[Outcome]:
    def get(answer: Any) -> Any:
        if isinstance(answer, list):
            return [get(one) for one in answer]
        if isinstance(answer.value, Exception):
            raise answer.value
        return answer.value

    wait = lambda running, timeout: (running[:1], running[1:])  # noqa: E731
    ray = SimpleNamespace(get=get, wait=wait, exceptions=SimpleNamespace(RayError=RayError))
    tasks = [Task(InputFile(f"{n}.wav")) for n in range(3 * CHUNK)]
    return list(RayBackend(ray, list(actors), None).outcomes(tasks, stopped))


def test_every_actor_s_models_are_compared_also_when_it_was_started_again():
    assert len(captioned(actor("1"), actor("1"))) == 3 * CHUNK
    with pytest.raises(CheckpointError, match=r"different models: edge\.weights is '1' and '2'"):
        captioned(actor("1"), actor("1"), actor("2"))
    with pytest.raises(CheckpointError, match="different models"):
        captioned(actor("1"), actor("1", "2"))


def test_what_ray_cannot_mend_is_an_error_of_ours():
    with pytest.raises(UnexpectedError, match="ValueError: no"):
        captioned(actor("1", RayError("Traceback\nValueError: no")))


def test_a_stop_ends_the_chunk_that_a_node_is_at():
    worker, ended = Worker.__new__(Worker), list[bool]()
    worker._stopped = False

    def run(tasks: list[Task], stopped: Stopped) -> Iterator[Outcome]:
        for task in tasks[:5]:
            ended.append(stopped())
            yield Outcome(task.item)

    worker._backend = SimpleNamespace(outcomes=run)
    node = actor("1")
    node.stop = SimpleNamespace(remote=worker.stop)
    assert len(captioned(node, stopped=iter([False, *[True] * 9]).__next__)) == CHUNK
    assert len(worker.caption([Task(InputFile("a.wav"))] * 9)) == 5
    assert all(ended)
