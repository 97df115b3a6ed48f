"""Reading ahead: bounded, in the background, and gone when it is closed; and counts of what became of it."""

import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace

import pytest

from specdec_cli import interrupts
from specdec_cli.captioning.output_file import Task
from specdec_cli.captioning.preparing import Prepared, Ready, prepare
from specdec_cli.captioning.read_ahead import MOST_READY_S, ReadAhead
from specdec_cli.captioning.tasks import Outcome, Progress
from specdec_cli.inputs.recording import InputFile
from specdec_cli.transcript.lines import LineState
from tests.mini_pair import captioner
from tests.support.transcripts import failed_line, good_line
from tests.waiting import until


def tasks(count: int) -> Iterator[Task]:
    return (Task(InputFile(f"{n}.wav")) for n in range(count))


def clip(task: Task, duration_s: float = 1.0) -> Prepared:
    run = SimpleNamespace(started=SimpleNamespace(duration_s=duration_s))
    return Prepared(Outcome(task.item), run)


def one_clip(task: Task) -> Iterator[Ready]:
    yield clip(task)


def going_on() -> bool:
    return False


def test_a_signal_that_a_thread_notices_first_still_ends_the_command():
    def interrupted() -> Iterator[Task]:
        interrupts.check()
        yield from tasks(1)

    interrupts.ask(signal.SIGINT)
    with ReadAhead(interrupted(), one_clip, lambda: True, workers=1):
        assert until(lambda: not threads_ahead())
    with pytest.raises(KeyboardInterrupt):
        interrupts.check()
    assert not interrupts.asked()


def test_a_signal_that_a_call_in_a_thread_notices_first_is_obeyed():
    interrupts.ask(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        interrupts.wait_for(interrupts.check)
    assert interrupts.obeyed()


def threads_ahead() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("ahead-")]


def drain(ahead: ReadAhead) -> list[Ready]:
    return list(iter(lambda: ahead.take(wait=True), None))


@pytest.mark.parametrize("workers", [1, 4])
def test_every_task_is_prepared_once(workers):
    def every_third_has_no_audio(task: Task) -> Iterator[Ready]:
        yield clip(task) if int(task.item.path[:-4]) % 3 else Outcome(task.item)

    with ReadAhead(tasks(200), every_third_has_no_audio, going_on, workers=workers) as ahead:
        found = drain(ahead)
    assert sum(isinstance(ready, Prepared) for ready in found) == 133
    items = [ready.outcome.item if isinstance(ready, Prepared) else ready.item for ready in found]
    assert sorted(item.path for item in items) == sorted(f"{n}.wav" for n in range(200))
    assert not threads_ahead()


@pytest.mark.parametrize("duration_s", [3.0, 30.0, 300.0])  # of models whose window is as long
@pytest.mark.parametrize("workers", [1, 3])
def test_no_more_audio_is_in_memory_than_allowed(workers, duration_s):
    prepared: list[str] = []

    def in_pieces(task: Task) -> Iterator[Ready]:
        for _ in range(200):
            prepared.append(task.item.path)
            yield clip(task, duration_s)

    with ReadAhead(tasks(2), in_pieces, going_on, workers=workers) as ahead:
        assert until(lambda: len(prepared) * duration_s >= MOST_READY_S)
        time.sleep(0.1)
        assert (len(prepared) - workers - 1) * duration_s < MOST_READY_S
        assert len(drain(ahead)) == 400


def test_outcomes_without_audio_are_bounded_too():
    taken: list[str] = []

    def found(task: Task) -> Iterator[Ready]:
        taken.append(task.item.path)
        yield Outcome(task.item)

    with ReadAhead(tasks(100_000), found, going_on, workers=2):
        assert until(lambda: len(taken) >= MOST_READY_S)
        time.sleep(0.1)
        assert len(taken) <= MOST_READY_S + 2


def test_a_run_that_is_torn_down_leaves_no_thread_waiting_for_room():
    ahead = ReadAhead(tasks(100), lambda task: iter([clip(task, 2.0 * MOST_READY_S)]), going_on, workers=4)
    ahead.__enter__()
    ahead.take(wait=True)
    ahead.__exit__(KeyboardInterrupt)
    assert until(lambda: not threads_ahead())


def test_what_goes_wrong_while_scanning_is_raised_where_it_is_read():
    def broken() -> Iterator[Task]:
        yield from tasks(3)
        raise RuntimeError("the disk is gone")

    with (
        pytest.raises(RuntimeError, match="the disk is gone"),
        ReadAhead(broken(), one_clip, going_on, workers=2) as ahead,
    ):
        drain(ahead)
    assert until(lambda: not threads_ahead())


def test_a_stop_ends_a_wait():
    gate = threading.Event()

    def slow(task: Task) -> Iterator[Ready]:
        gate.wait()
        yield clip(task)

    started = time.monotonic()
    with ReadAhead(tasks(3), slow, lambda: time.monotonic() > started + 0.2, workers=2) as ahead:
        assert ahead.take(wait=True) is None
        gate.set()


def test_what_cannot_be_read_any_more_keeps_its_caption(tmp_path):
    ready = partial(prepare, captioner(decoding__mode="edge"))
    none = InputFile(str(tmp_path / "none.wav"))
    assert list(ready(Task(none, (LineState(0, 1, True, "0" * 64),)))) == [Outcome(none, captioned=True)]
    (never_there,) = ready(Task(none))
    assert isinstance(never_there, Outcome)
    assert never_there.line.error is not None


@pytest.mark.parametrize(("before", "captioned"), [(False, 1), (True, 2)])
def test_a_recording_counts_once_in_whatever_order_its_pieces_end(before, captioned):
    counts, long, broken = Progress(), InputFile("long.wav"), InputFile("broken.wav")
    counts.add(Outcome(long, good_line("long.wav"), of=4))
    counts.add(Outcome(broken, failed_line("broken.wav"), captioned=before))
    counts.add(Outcome(long, failed_line("long.wav"), pieces=2, of=4))  # could not be read to its end
    assert (counts.done, counts.failed) == (1, 2)
    counts.add(Outcome(long, good_line("long.wav"), of=4))
    counts.add(Outcome(InputFile("known.wav")))
    assert (counts.done, counts.captioned, counts.skipped) == (3, captioned, 1)
