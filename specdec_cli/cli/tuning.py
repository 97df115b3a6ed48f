"""One tuning from the recordings to the gate file: what is refused, what is run, what is printed, how it ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from specdec_cli.cli import startup
from specdec_cli.cli.comparing import identified
from specdec_cli.cli.exit_codes import ALL_FAILED, INTERRUPTED, SOME_FAILED
from specdec_cli.console.errors import print_error
from specdec_cli.console.output import write_line
from specdec_cli.console.progress import choose_steps
from specdec_cli.errors import ConfigError, SpecdecError
from specdec_cli.targets import GATE, PICTURE, RECORDINGS, refuse, write
from specdec_cli.types import GateName

if TYPE_CHECKING:
    from specdec_cli.cli.judging import Judging
    from specdec_cli.config import Config
    from specdec_cli.config.gate_file import GateFile
    from specdec_cli.console.progress import Steps
    from specdec_cli.tune.result import Tuning as Found

_GATES: Final[tuple[GateName, ...]] = ("entropy", "margin", "logprob", "learned")


def parse_gates(text: str | None) -> tuple[GateName, ...]:
    """Gates out of `entropy,learned`, and the random one as the control; None: all that can be fitted here.

    Raises:
        ConfigError: one is unknown, or there is nothing in it to tune.
    """
    if text is None:
        fitting = find_spec("sklearn") is not None
        return (*(gate for gate in _GATES if fitting or gate != "learned"), "random")
    asked = [name.strip() for name in text.split(",") if name.strip()]
    if not asked or (unknown := [name for name in asked if name not in (*_GATES, "random")]):
        named = repr(unknown[0]) if asked else "nothing"
        raise ConfigError(f"--gate: {named} cannot be tuned.", hint=f"Gates: {', '.join(_GATES)}.")
    return (*(gate for gate in _GATES if gate in asked), "random")


def parse_ks(text: str) -> tuple[int, ...]:
    """Block sizes out of `2,3,5`.

    Raises:
        ConfigError: one is no whole number from 1 to 64.
    """
    sizes = []
    for word in text.split(","):
        if not word.strip().isdecimal() or not 1 <= int(word) <= 64:
            raise ConfigError(
                f"--ks: {word.strip()!r} is no whole number from 1 to 64.", hint="For example: --ks 2,3,5"
            )
        sizes.append(int(word))
    return tuple(sorted(set(sizes)))


@dataclass(frozen=True, slots=True)
class Request:
    """A tuning as asked for."""

    config: Config
    paths: tuple[str, ...]
    recursive: bool
    limit: int | None
    gates: tuple[GateName, ...]
    ks: tuple[int, ...]
    budget: float
    seed: int
    judging: Judging
    recordings: Path | None
    output: Path | None
    plot: Path | None
    json: bool
    reads: tuple[Path | None, ...]


class Tuning:
    """Carries out a request.

    Args:
        request: what was asked for.
        quiet: show no progress.
        debug: show tracebacks.
    """

    def __init__(self, request: Request, *, quiet: bool, debug: bool) -> None:
        self._request = request
        self._view: Steps = choose_steps(quiet=quiet, debug=debug)
        self._failed: set[str] = set()

    def run(self) -> int:
        """The exit code: 0, 1 if no recording could be read or there is no gate to write, 3 if some recordings could
        not be read, 130 if interrupted.

        Raises:
            ConfigError: something in the request cannot be.
            CheckpointError: a model cannot be loaded.
            TranscriptError: a file cannot be written or read.
        """
        from specdec_cli.tune.plan import require_tunable

        clips = self._clips()
        if not clips:
            return ALL_FAILED
        require_tunable(self._request.config, self._request.gates, len(clips))
        try:
            found, file = self._tuned(clips)
        except KeyboardInterrupt:
            kept = self._request.recordings
            self._view.close()
            self._view.say(f"interrupted; run it again to go on from {kept}" if kept else "interrupted")
            return INTERRUPTED
        finally:
            self._view.close()
        self._write(found, file)
        if self._request.output is not None and file is None:
            message = f"{self._request.output} was not written: no setting can be recommended."
            print_error(ConfigError(message, hint=found.reason))
            return ALL_FAILED
        return SOME_FAILED if self._failed else 0

    def _clips(self) -> dict[str, str]:
        """SHA-256 -> path of everything to tune on, after what cannot succeed was refused."""
        from specdec_cli.inputs.find import find_recordings

        request = self._request
        files = find_recordings(request.paths, recursive=request.recursive, limit=request.limit)
        self._refuse_targets(files)
        recordings = identified(files, self._view)
        for recording in recordings:
            if recording.error is not None:
                self.failed(recording.path, recording.error)
        return {recording.sha256: recording.path for recording in recordings if recording.sha256 is not None}

    def _refuse_targets(self, files: Sequence[str]) -> None:
        request = self._request
        targets = {
            "--recordings": (request.recordings, RECORDINGS),
            "--output": (request.output, GATE),
            "--plot": (request.plot, PICTURE),
        }
        refuse(targets, [*files, *request.reads])

    def _tuned(self, clips: dict[str, str]) -> tuple[Found, GateFile | None]:
        request = self._request
        lexicon, references = request.judging.read()
        with startup.still_collector():
            with self._view.loading("PyTorch"):
                from specdec_cli.captioner import Captioner
                from specdec_cli.tune.journal import Journal
                from specdec_cli.tune.plan import Plan
                from specdec_cli.tune.record import setup_of
                from specdec_cli.tune.run import tune
            captioner = Captioner.load(request.config, loading=self._view.loading)
        plan = Plan(request.gates, request.ks, request.budget, request.seed)
        find = references.find if references is not None else lambda _: None
        with Journal(setup_of(captioner), request.recordings) as journal:
            return tune(captioner, plan, clips, find, lexicon, journal, self)

    def _write(self, found: Found, file: GateFile | None) -> None:
        request = self._request
        if request.output is not None and file is not None:
            write(request.output, file.to_json(), GATE)
            found = found.model_copy(update={"output": str(request.output)})
        if request.plot is not None:
            from specdec_cli.report import frontier_svg

            title = f"{found.confirmed_on} clips, {request.config.prompt.language}"
            write(request.plot, frontier_svg([*found.estimated, *found.confirmed], title=title), PICTURE)
        if request.json:
            write_line(found.model_dump_json())
            return
        from specdec_cli.console.tune import print_tuning

        print_tuning(found)

    def begin(self, steps: int) -> None:
        """There are so many steps to take."""
        self._view.begin(steps)

    def step(self, what: str) -> None:
        """A step is about to be taken."""
        self._view.step(what)

    def advance(self) -> None:
        """It was taken."""
        self._view.advance()

    def failed(self, file: str, error: SpecdecError) -> None:
        """A recording cannot be used."""
        self._failed.add(file)
        self._view.failed(file, error)
