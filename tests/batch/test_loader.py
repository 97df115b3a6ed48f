"""Reading ahead: bounded, in the background, and gone when it is closed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from specdec_cli.batch.in_flight import Prepared
from specdec_cli.batch.loader import Loader, Ready
from specdec_cli.batch.local import Preparer
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
def test_every_task_is_prepared_once(workers: int) -> None:
    with loading(tasks(200), one_second, workers=workers, in_flight_s=10) as loader:
        files = drain(loader)
    assert sorted(files) == sorted(f"{n}.wav" for n in range(200))
    assert not loader_threads()


@pytest.mark.parametrize("workers", [1, 3])
def test_no_more_audio_is_in_memory_than_allowed(workers: int) -> None:
    begun: list[str] = []

    def prepare(task: Task) -> Iterator[Ready]:
        begun.append(task.item.path)
        yield clip(task, 4.0)

    with loading(tasks(100), prepare, workers=workers, in_flight_s=10) as loader:
        until(lambda: loader._audio_s >= 10)
        time.sleep(0.1)
        assert 12 <= loader._audio_s <= 10 + 4 * workers
        assert len(begun) <= 3 + workers
        assert len(drain(loader)) == 100


def test_a_long_recording_is_prepared_piece_by_piece() -> None:
    prepared = 0

    def prepare(task: Task) -> Iterator[Ready]:
        nonlocal prepared
        for _ in range(1000):
            prepared += 1
            yield clip(task)

    with loading(tasks(1), prepare, workers=1, in_flight_s=10) as loader:
        until(lambda: loader._audio_s >= 10)
        time.sleep(0.05)
        assert prepared <= 11


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


def test_the_shortest_clip_comes_first_and_outcomes_are_delivered_on_the_way() -> None:
    lengths, delivered = {"0.wav": 3.0, "1.wav": 1.0, "2.wav": 2.0}, list[Outcome]()

    def prepare(task: Task) -> Iterator[Ready]:
        yield clip(task, lengths[task.item.path]) if task.item.path in lengths else Outcome(task.item)

    with Loader(tasks(4), prepare, delivered.append, lambda: False, workers=1) as loader:
        until(lambda: not loader._working)
        assert drain(loader) == ["1.wav", "2.wav", "0.wav"]
    assert [outcome.item.path for outcome in delivered] == ["3.wav"]


def test_closing_early_leaves_no_thread() -> None:
    with loading(tasks(1000), one_second, workers=4, in_flight_s=5) as loader:
        loader.take(wait=True)
    assert not loader_threads()


def test_a_recording_that_was_captioned_is_recognised_by_its_content(tmp_path: Path) -> None:
    file = str(write_voice(tmp_path / "a.wav", 1))
    prepare = Preparer(captioner(decoding__mode="edge"))
    (ready,) = prepare(Task(InputFile(file)))
    assert isinstance(ready, Prepared)
    content = ready.run.clip.sha256
    known = Entry((Mark(0, 1, True, content),), None)
    (outcome,) = prepare(Task(InputFile(file), known))
    assert isinstance(outcome, Outcome)
    assert outcome.skipped
    write_voice(tmp_path / "a.wav", 2)
    (changed,) = prepare(Task(InputFile(file), known))
    assert isinstance(changed, Prepared)
    assert changed.run.clip.sha256 != content
    (gone,) = prepare(Task(InputFile(str(tmp_path / "none.wav")), known))
    assert isinstance(gone, Outcome)
    assert gone.skipped  # the caption that it has is not given up
    (never_there,) = prepare(Task(InputFile(str(tmp_path / "none.wav"))))
    assert isinstance(never_there, Outcome)
    assert never_there.failed


def test_all_threads_share_one_budget_of_audio() -> None:
    """What they decode counts too: six threads of 30 s each never hold more than 100 s, however slow the models are."""
    lock, held, most = threading.Lock(), 0.0, 0.0

    def change(seconds: float) -> None:
        nonlocal held, most
        with lock:
            held += seconds
            most = max(most, held)

    def decoded(task: Task) -> Iterator[Ready]:
        change(30.0)
        time.sleep(0.002)
        yield clip(task, 30.0)

    with loading(tasks(40), decoded, workers=6, in_flight_s=100.0, most_s=30.0) as loader:
        taken = 0
        while True:
            with lock:  # it leaves the loader and is counted in one step
                if (ready := loader.take(wait=False)) is not None:
                    held -= 30.0
                    taken += 1
            if ready is None and taken == 40:
                break
    assert taken == 40
    assert 60.0 <= most <= 100.0


def test_a_recording_longer_than_the_budget_is_loaded_by_itself() -> None:
    with loading(tasks(5), one_second, workers=3, in_flight_s=10.0, most_s=30.0) as loader:
        assert len(drain(loader)) == 5
