"""A batch on a Ray cluster: one actor per model pair, each with a local batch, which gets clips when it is free.

Every node needs specdec installed, and the recordings under the same paths. Only this process writes the output. Ray
has no passwords: whoever reaches its ports runs code on every node, so they belong in a network of their own.
"""

from __future__ import annotations

import logging
import os
import socket
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final

from specdec_cli import interrupts
from specdec_cli.captioning.local import BatchBackend
from specdec_cli.captioning.output_file import Task
from specdec_cli.captioning.tasks import ActorSettings, Outcome, Stopped
from specdec_cli.config import Config
from specdec_cli.errors import CheckpointError, ConfigError, UnexpectedError, install
from specdec_cli.format import count
from specdec_cli.text import show
from specdec_cli.transcript.records import Transcript
from specdec_cli.transcript.shared import SharedFields, loaded_changes
from specdec_cli.types import Loading

CHUNK: Final = 32
"""Recordings handed to an actor at a time, or two batches if that is more."""

_RETRIES: Final = 3  # times that a chunk is handed on after its actor died
_CONNECT_S: Final = 10.0
_SIGNAL_S: Final = 0.2  # how long a wait may keep the main thread from noticing a signal or a stop


class Worker:
    """What runs in an actor, in the folder of the command: a loaded pair and the threads that read ahead for it."""

    def __init__(self, work: ActorSettings, folder: str) -> None:
        from specdec_cli.captioner import Captioner

        if os.path.isdir(folder):
            os.chdir(folder)  # relative paths mean what they mean where the command was given
        captioner = Captioner.load(work.config.running_long())
        if captioner.reader.cuts is not None:
            captioner.reader.cuts.expect(work.recordings)
        captioner = captioner.labelled(work.lexicon).measuring()
        self._backend = BatchBackend(captioner, batch_size=work.batch_size, workers=work.config.runtime.readers)
        self._stopped = False

    def shared(self) -> SharedFields:
        """See `Captioner.shared`."""
        return self._backend.shared

    def caption(self, tasks: list[Task]) -> list[Outcome]:
        """The outcomes of the tasks, but for those that were not begun before a stop."""
        return list(self._backend.outcomes(tasks, lambda: self._stopped))

    def stop(self) -> None:
        """Begins nothing more. Runs while `caption` does."""
        self._stopped = True


@contextmanager
def cluster(work: ActorSettings, loading: Loading) -> Iterator[RayBackend]:
    """Connects to the cluster at RAY_ADDRESS, loads the models on it, and disconnects.

    Without that variable it starts one on this machine for the length of the run.

    Args:
        work: of each actor.
        loading: see `Captioner.load`.

    Raises:
        ConfigError: Ray is not installed, or no cluster answers.
        CheckpointError: the models cannot be loaded, or are not the same everywhere.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry
    try:
        import ray
    except ImportError as error:
        raise ConfigError("--ray needs Ray, which is not installed.", hint=f"Install it: {install('ray')}") from error
    with loading("Ray"):
        _connect(ray)
    try:
        number, resources = _shape(ray, work.config)
        with loading(count(number, "model pair")):
            resources |= {"max_concurrency": 2}  # `stop` has to arrive while `caption` runs
            worker = ray.remote(Worker).options(**resources, max_restarts=-1, max_task_retries=_RETRIES)
            kept = [ray.put(each) for each in (work, os.getcwd())]  # for actors that are started again
            backend = RayBackend(ray, [worker.remote(*kept) for _ in range(number)], work.batch_size)
        yield backend
    finally:
        ray.shutdown()


class RayBackend:
    """Captions tasks with actors; Ray restarts one that dies, and hands it its recordings again."""

    def __init__(self, ray: Any, actors: list[Any], batch_size: int | None) -> None:
        self._ray, self._actors, self._chunk = ray, actors, max(CHUNK, 2 * (batch_size or 0))
        self.shared: SharedFields
        try:
            self.shared, *others = interrupts.wait_for(lambda: ray.get([actor.shared.remote() for actor in actors]))
        except ray.exceptions.RayError as error:
            hint = "Every node needs specdec and the models; try the same command there without --ray."
            raise CheckpointError(f"The cluster cannot load the models: {_last_line(error)}", hint=hint) from error
        for other in others:
            self._require_same(other)

    def outcomes(self, tasks: Iterable[Task], stopped: Stopped) -> Generator[Outcome]:
        """See `Backend`. Outcomes come in chunks, as actors finish them or are stopped.

        Raises:
            CheckpointError: an actor has other models than the first.
            UnexpectedError: an actor failed for another reason than its recordings, or too many died over a chunk.
        """
        left = iter(tasks)
        idle, running = deque(self._actors), dict[Any, Any]()  # answer that is awaited -> its actor
        told = False
        while True:
            while idle and not stopped() and (chunk := list(islice(left, self._chunk))):
                actor = idle.popleft()
                running[actor.caption.remote(chunk)] = actor
            if not running:
                return
            if stopped() and not told:
                told = True
                for actor in running.values():
                    actor.stop.remote()
            for reference in self._ray.wait(list(running), timeout=_SIGNAL_S)[0]:
                idle.append(running.pop(reference))
                try:
                    outcomes = self._ray.get(reference)
                except self._ray.exceptions.RayError as error:
                    hint = "Captions so far are kept. Run it again with --debug, and look at: ray status"
                    raise UnexpectedError(f"A process of the cluster failed: {_last_line(error)}", hint=hint) from error
                for outcome in outcomes:
                    if outcome.line is not None:
                        self._require_same(outcome.line)
                    yield outcome

    def _require_same(self, other: SharedFields | Transcript) -> None:
        """Raises CheckpointError if a node has other models: every node loads them from its own disk."""
        for name, there, here in loaded_changes(self.shared, other, ("name", "dtype", "weights")):
            raise CheckpointError(
                f"The nodes of the cluster have different models: {name} is {show(there)} and {show(here)}.",
                hint="Give every node the same files, and the same specdec.",
            )


def _connect(ray: Any) -> None:
    place = os.environ.get("RAY_ADDRESS")
    host, colon, port = (place or "").removeprefix("ray://").rpartition(":")
    try:
        if colon and port.isdecimal():  # where nothing listens, Ray itself would go on trying for minutes
            socket.create_connection((host, int(port)), timeout=_CONNECT_S).close()
        ray.init(log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
    except (OSError, RuntimeError, ValueError) as error:
        detail = " ".join(str(error).split())
        raise ConfigError(
            f"No Ray cluster answers at {place or 'this machine'}: {detail[:300]}",
            hint="Start one with: ray start --head; or unset RAY_ADDRESS to use this machine.",
        ) from error


def _shape(ray: Any, config: Config) -> tuple[int, dict[str, float]]:
    """How many actors the cluster has room for, and what each reserves."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    gpus = sum(int(node.get("GPU", 0)) for node in nodes)
    if gpus and any(model is not None and model.device != "cpu" for model in (config.edge, config.cloud)):
        return gpus, {"num_cpus": 1, "num_gpus": 1}
    cores = [int(node["CPU"]) for node in nodes if node.get("CPU", 0) >= 1]
    # One core of each node is left to Ray itself: without any, its own tasks starve and everything hangs.
    spare = max(min(cores, default=1) - 1, 1)
    return max(len(cores), 1), {"num_cpus": min(config.runtime.threads or spare, spare)}


def _last_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
