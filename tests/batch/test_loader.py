"""Reading ahead: bounded, in the background, and gone when it is closed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from specdec_cli.batch.in_flight import Prepared
from specdec_cli.batch.local import Loader, Ready, prepare
from specdec_cli.batch.output_file import Entry
from specdec_cli.batch.tasks import Outcome, Task
from specdec_cli.inputs.recording import InputFile
from specdec_cli.run import Run
from specdec_cli.transcript.lines import Mark
from specdec_cli.types import Clip
from tests.mini_pair import captioner, write_voice


def loading(
    tasks: Iterable[Task],
    prepare: Callable[[Task], Iterator[Ready]],
    stopped: Callable[[], bool] = lambda: False,
    **settings: Any,
) -> Loader:
    """A loader whose outcomes go nowhere."""
    return Loader(tasks, prepare, lambda _: None, stopped, **settings)


def tasks(count: int) -> Iterator[Task]:
    return (Task(InputFile(f"{n}.wav")) for n in range(count))


def clip(task: Task, duration_s: float = 1.0) -> Prepared:
    run = Run(None, Clip(task.item.path, "", duration_s), None, 0.0, None, None)  # type: ignore[arg-type]
    return Prepared(None, run)  # type: ignore[arg-type]


def one_second(task: Task) -> Iterator[Ready]:
    yield clip(task)


def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def loader_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("loader-")]


def drain(loader: Loader) -> list[str]:
    files = []
    while ready := loader.take(wait=True):
        files.append(ready.run.clip.file)
    return files


@pytest.mark.parametrize("workers", [1, 4])
def test_every_task_is_prepared_once_and_outcomes_are_delivered_on_the_way(workers: int) -> None:
    delivered: list[Outcome] = []

    def every_third_has_no_audio(task: Task) -> Iterator[Ready]:
        yield clip(task) if int(task.item.path[:-4]) % 3 else Outcome(task.item)

    ours = Loader(
        tasks(200), every_third_has_no_audio, delivered.append, lambda: False, workers=workers, in_flight_s=10
    )
    with ours as loader:
        files = drain(loader)
    assert len(files) == 133
    assert sorted([*files, *(outcome.item.path for outcome in delivered)]) == sorted(f"{n}.wav" for n in range(200))
    assert not loader_threads()


@pytest.mark.parametrize("pieces", [1, 50])
@pytest.mark.parametrize("workers", [1, 3])
def test_no_more_audio_is_in_memory_than_allowed(workers: int, pieces: int) -> None:
    prepared: list[str] = []

    def in_pieces(task: Task) -> Iterator[Ready]:
        for _ in range(pieces):
            prepared.append(task.item.path)
            yield clip(task, 4.0)

    with loading(tasks(100 // pieces), in_pieces, workers=workers, in_flight_s=10) as loader:
        until(lambda: loader._audio_s >= 10)
        time.sleep(0.1)
        assert loader._audio_s == 12
        assert len(prepared) <= 3 + workers
        assert len(drain(loader)) == 100


def test_outcomes_without_audio_are_bounded_too() -> None:
    taken = 0

    def many() -> Iterator[Task]:
        nonlocal taken
        for task in tasks(100_000):
            taken += 1
            yield task

    with loading(many(), lambda task: iter([Outcome(task.item)]), workers=2):
        until(lambda: taken > 2000)
        time.sleep(0.1)
        assert taken < 3000


def test_what_goes_wrong_while_scanning_is_raised_where_it_is_read() -> None:
    def broken() -> Iterator[Task]:
        yield from tasks(3)
        raise RuntimeError("the disk is gone")

    with pytest.raises(RuntimeError, match="the disk is gone"), loading(broken(), one_second, workers=2) as loader:
        drain(loader)
    until(lambda: not loader_threads())


def test_a_stop_ends_a_wait() -> None:
    gate = threading.Event()

    def slow(task: Task) -> Iterator[Ready]:
        gate.wait()
        yield clip(task)

    started = time.monotonic()
    with loading(tasks(3), slow, lambda: time.monotonic() > started + 0.2, workers=2) as loader:
        assert loader.take(wait=True) is None
        assert time.monotonic() - started < 2
        gate.set()


def test_a_recording_that_was_captioned_is_recognised_by_its_content(tmp_path: Path) -> None:
    ready = partial(prepare, captioner(decoding__mode="edge"))
    file, none = (InputFile(str(tmp_path / name)) for name in ("a.wav", "none.wav"))
    write_voice(tmp_path / "a.wav", 1)
    (first,) = ready(Task(file))
    assert isinstance(first, Prepared)
    known = Entry((Mark(0, 1, True, first.run.clip.sha256),), None)
    assert list(ready(Task(file, known))) == [Outcome(file)]
    assert list(ready(Task(none, known))) == [Outcome(none)]  # the caption that it has is not given up
    write_voice(tmp_path / "a.wav", 2)
    (changed,) = ready(Task(file, known))
    assert isinstance(changed, Prepared)
    assert changed.run.clip.sha256 != first.run.clip.sha256
    (never_there,) = ready(Task(none))
    assert isinstance(never_there, Outcome)
    assert never_there.line is not None
    assert never_there.line.error is not None
