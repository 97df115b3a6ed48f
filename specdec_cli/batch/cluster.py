"""A batch on a Ray cluster: one actor per model pair, each with a local batch of its own, handed clips as it gets free.

Every node needs specdec installed, and the recordings under the same paths. Only this process writes the output. Ray
has no passwords: whoever reaches its ports runs code on every node, so they belong in a network of their own.
"""

from __future__ import annotations

import logging
import os
import socket
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from specdec_cli.batch.local import LocalBackend, error_outcome
from specdec_cli.batch.tasks import Deliver, Outcome, Stopped, Task
from specdec_cli.config.problems import show
from specdec_cli.errors import CheckpointError, ConfigError, SpecdecError, UnexpectedError, install
from specdec_cli.transcript.terms import loaded_changes

if TYPE_CHECKING:
    from specdec_cli.config import Config
    from specdec_cli.inputs.recording import Key
    from specdec_cli.labels.calibration import Labelling
    from specdec_cli.pair_loading import Loading
    from specdec_cli.run import Setup
    from specdec_cli.transcript.records import Models

CHUNK: Final = 32
"""Recordings handed to an actor at a time, or two batches if that is more."""

_Chunk = tuple[Task, ...]  # tasks that travel together

_ATTEMPTS: Final = 2  # actors that one recording may cost before it is given up
_STARTS: Final = 5  # actors in a row that may die without finishing anything before the run is given up
_CONNECT_S: Final = 10.0
_SIGNAL_S: Final = 0.2  # how long a wait may keep the main thread from noticing a signal or a stop


class Worker:
    """What runs in an actor: a loaded pair and the threads that read ahead for it."""

    def __init__(
        self,
        config: Config,
        labelling: Labelling | None,
        folder: str,
        batch_size: int | None,
        workers: int,
        measures: bool,
    ) -> None:
        from specdec_cli.captioner import Captioner

        if os.path.isdir(folder):
            os.chdir(folder)  # relative paths mean what they mean where the command was given
        captioner = Captioner.load(config)
        if labelling is not None:
            captioner = captioner.labelled(*labelling)
        if measures:
            captioner = captioner.measuring()
        self._setup = captioner.setup
        self._backend = LocalBackend(captioner, batch_size=batch_size, workers=workers)
        self._stopped = False

    def setup(self) -> Setup:
        """See `Captioner.setup`."""
        return self._setup

    def caption(self, tasks: list[Task]) -> list[Outcome]:
        """What became of the tasks; without those that a stop kept from being begun."""
        outcomes: list[Outcome] = []
        self._backend.run(tasks, outcomes.append, lambda: self._stopped)
        return outcomes

    def stop(self) -> None:
        """Begins nothing more. Runs while `caption` does."""
        self._stopped = True


class RayBackend:
    """Captions tasks on a cluster. Use it as a context manager: it connects, loads the models, and disconnects.

    Args:
        config, measures, loading: see `Captioner`.
        labelling: see `Captioner.labelled`; None: transcripts have no labels.
        address: of the cluster; None: RAY_ADDRESS, or else one on this machine for the length of the run.
        batch_size, workers: of each actor, see `LocalBackend`.

    Raises:
        ConfigError: Ray is not installed, or no cluster answers.
    """

    def __init__(
        self,
        config: Config,
        labelling: Labelling | None,
        address: str | None,
        *,
        batch_size: int | None,
        workers: int,
        measures: bool = False,
        loading: Loading,
    ) -> None:
        self._config = config
        self._address = address
        self._arguments = (config, labelling, os.getcwd(), batch_size, workers, measures)
        self._chunk = max(CHUNK, 2 * (batch_size or 0))
        self._loading = loading
        self._ray = _import_ray()
        self._actors: list[Any] = []
        self.setup: Setup

    def __enter__(self) -> RayBackend:
        with self._loading("Ray"):
            _connect(self._ray, self._address)
        try:
            count, self._resources = _shape(self._ray, self._config)
            with self._loading(f"{count} model pair{'s' if count > 1 else ''}"):
                self._actors = [self._start() for _ in range(count)]
                self.setup = self._first_setup()
        except BaseException:
            self._ray.shutdown()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for actor in self._actors:
            self._ray.kill(actor)
        self._ray.shutdown()

    def run(self, tasks: Iterable[Task], deliver: Deliver, stopped: Stopped) -> None:
        """See `Backend`. Outcomes come in chunks, as actors finish them.

        Raises:
            CheckpointError: an actor has other models than the first, or none can be kept alive.
            UnexpectedError: an actor failed for another reason than its recordings.
        """
        errors = self._ray.exceptions
        left = iter(tasks)
        waiting = iter(lambda: tuple(islice(left, self._chunk)), ())
        lost: Counter[Key] = Counter()  # actors that died over one recording alone
        again: deque[_Chunk] = deque()  # those of dead actors one by one, to find the one that kills its process
        idle, running = deque(self._actors), dict[Any, tuple[Any, _Chunk]]()
        stopping, deaths = False, 0
        while True:
            while idle and not stopped() and (chunk := again.popleft() if again else next(waiting, None)):
                actor = idle.popleft()
                running[actor.caption.remote(list(chunk))] = (actor, chunk)
            if not running:
                return
            if stopped() and not stopping:
                stopping = True
                for actor, _ in running.values():
                    actor.stop.remote()
            for reference in self._ray.wait(list(running), timeout=_SIGNAL_S)[0]:
                actor, chunk = running.pop(reference)
                try:
                    outcomes, deaths = self._ray.get(reference), 0
                    idle.append(actor)
                except errors.RayTaskError as error:
                    raise UnexpectedError(_last_line(error), hint="Run it again with --debug.") from error
                except errors.RayError as error:  # the actor, its node or its memory is gone, or an answer of its
                    deaths += 1
                    if deaths >= _STARTS * len(self._actors):
                        raise _load_error(error) from error
                    idle.append(self._replaced(actor))
                    if len(chunk) == 1:
                        lost[chunk[0].item.key] += 1
                    outcomes = [self._given_up(task) for task in chunk if lost[task.item.key] == _ATTEMPTS]
                    again.extend((task,) for task in chunk if lost[task.item.key] < _ATTEMPTS)
                for outcome in outcomes:
                    for line in outcome.lines:
                        self._require_same(line.models, line.settings)
                    deliver(outcome)

    def _start(self) -> Any:
        # Two at once: `stop` has to arrive while `caption` runs. Losses are dealt with here, recording by recording.
        options = {**self._resources, "max_concurrency": 2, "max_restarts": 0, "max_task_retries": 0}
        return self._ray.remote(Worker).options(**options).remote(*self._arguments)

    def _first_setup(self) -> Setup:
        try:
            self.setup, *others = self._ray.get([actor.setup.remote() for actor in self._actors])
        except self._ray.exceptions.RayError as error:
            raise _load_error(error) from error
        for other in others:
            self._require_same(other.models, other.settings)
        return self.setup

    def _require_same(self, models: Models, settings: Mapping[str, object]) -> None:
        """Refuses to mix captions of several models: every node loads them from its own disk."""
        for name, there, here in loaded_changes(self.setup, models, settings, ("name", "dtype", "weights")):
            raise CheckpointError(
                f"The nodes of the cluster have different models: {name} is {show(there)} and {show(here)}.",
                hint="Give every node the same files, and the same specdec.",
            )

    def _replaced(self, actor: Any) -> Any:
        """An actor in place of one that died."""
        self._ray.kill(actor)
        self._actors.remove(actor)
        self._actors.append(self._start())
        return self._actors[-1]

    def _given_up(self, task: Task) -> Outcome:
        """The outcome of a recording that has cost too many actors."""
        error = UnexpectedError(f"{_ATTEMPTS} processes died while captioning it.")
        return error_outcome(task.item, error, self.setup, self._config)


def _import_ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry
    try:
        import ray
    except ImportError as error:
        raise ConfigError("--ray needs Ray, which is not installed.", hint=f"Install it: {install('ray')}") from error
    return ray


def _connect(ray: Any, address: str | None) -> None:
    place = address or os.environ.get("RAY_ADDRESS")
    try:
        _require_listening(place)
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
    except (OSError, RuntimeError, ValueError) as error:
        detail = " ".join(str(error).split())
        raise ConfigError(
            f"No Ray cluster answers at {place or 'this machine'}: {detail[:300]}",
            hint="Start one with: ray start --head; or leave --ray-address out to use this machine.",
        ) from error


def _require_listening(address: str | None) -> None:
    """Raises OSError where nothing listens: Ray itself would go on trying for minutes."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=_CONNECT_S).close()


def _shape(ray: Any, config: Config) -> tuple[int, dict[str, float]]:
    """How many actors the cluster has room for, and what each reserves."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    gpus = sum(int(node.get("GPU", 0)) for node in nodes)
    if gpus and any(model is not None and model.device != "cpu" for model in (config.edge, config.cloud)):
        return gpus, {"num_cpus": 1, "num_gpus": 1}
    nodes = [node for node in nodes if node.get("CPU", 0) >= 1]
    if not nodes:
        raise ConfigError("The Ray cluster has no CPUs to run on.", hint="Look at it with: ray status")
    # One core of each node is left to Ray itself: without any, its own tasks starve and everything hangs.
    spare = max(min(int(node["CPU"]) for node in nodes) - 1, 1)
    return len(nodes), {"num_cpus": min(config.runtime.threads or spare, spare)}


def _load_error(error: Exception) -> SpecdecError:
    """Why no actor stays alive, from the last line of the first error."""
    return CheckpointError(
        f"The models cannot be loaded on the cluster: {_last_line(error)}",
        hint="Every node needs specdec and the models; try the same command there without --ray.",
    )


def _last_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
