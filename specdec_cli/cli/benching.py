"""One benchmark from the recordings to the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specdec_cli.cli import startup
from specdec_cli.console.output import write_line
from specdec_cli.console.progress import choose_steps

if TYPE_CHECKING:
    from specdec_cli.bench.clips import Clip
    from specdec_cli.bench.result import Bench
    from specdec_cli.bench.run import Measurements
    from specdec_cli.captioner import Captioner
    from specdec_cli.config import ResolvedConfig
    from specdec_cli.console.progress import QuietSteps


@dataclass(frozen=True, slots=True)
class Request:
    """A benchmark as asked for."""

    config: ResolvedConfig
    clips: str | None
    rounds: int
    json: bool
    command: str


class Benching:
    """Carries out a request.

    Args:
        request: what was asked for.
        quiet: show no progress.
        debug: show tracebacks.
    """

    def __init__(self, request: Request, *, quiet: bool, debug: bool) -> None:
        self._request = request
        self._view: QuietSteps = choose_steps(quiet=quiet, debug=debug)

    def run(self) -> None:
        """Measures and prints.

        Raises:
            ConfigError: something in the request cannot be.
            AudioError: a recording cannot be captioned.
            CheckpointError: a model cannot be loaded.
        """
        try:
            found = self._measured()
        finally:
            self._view.close()
        if self._request.json:
            write_line(found.model_dump_json(by_alias=True))
            return
        from specdec_cli.console.bench import print_bench

        print_bench(found)

    def _measured(self) -> Bench:
        request = self._request
        with startup.still_collector(), self._view.loading("PyTorch"):
            from specdec_cli.bench.build import Subject, build_result
            from specdec_cli.bench.clips import Models, files_of, read_clips
            from specdec_cli.bench.memory import account, resident_mb
            from specdec_cli.bench.run import comparable
            from specdec_cli.bench.steps import block_of
            from specdec_cli.captioner import Captioner
            from specdec_cli.decoding.length import capacity
        config, files = comparable(request.config.config), files_of(request.clips)
        libraries_mb = resident_mb()
        with startup.still_collector():
            captioner = Captioner.load(config, loading=self._view.loading)
        models, clips = Models.of(captioner.pair), read_clips(captioner, files)
        found = self._taken(captioner, clips)
        block = block_of(config.decoding.k)
        memory = account(models, clips, capacity(config.decoding), block, libraries_mb)
        subject = Subject(request.command, str(request.config.path), captioner, clips, request.rounds)
        return build_result(subject, found, memory)

    def _taken(self, captioner: Captioner, clips: Sequence[Clip]) -> Measurements:
        from specdec_cli.bench.run import Benchmark

        benchmark = Benchmark(captioner, clips)
        self._view.say("warming up: a first run of every contender, which does not count")
        benchmark.warm_up()
        self._view.begin(benchmark.turns(self._request.rounds))
        return benchmark.run(self._request.rounds, lambda _: self._view.advance())
