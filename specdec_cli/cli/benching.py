"""One benchmark from the recordings to the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from specdec_cli.cli import startup
from specdec_cli.console.output import write_line
from specdec_cli.console.progress import choose_steps

if TYPE_CHECKING:
    from specdec_cli.bench.clips import Clip, Models
    from specdec_cli.bench.result import Bench, Forced
    from specdec_cli.bench.run import Measurements
    from specdec_cli.captioner import Captioner
    from specdec_cli.config import DecodingConfig, ResolvedConfig
    from specdec_cli.console.progress import Steps

_ACCEPTANCES: Final = (0.6, 0.8, 0.9)


@dataclass(frozen=True, slots=True)
class Request:
    """A benchmark as asked for."""

    config: ResolvedConfig
    clips: str | None
    rounds: int
    acceptances: Sequence[float]
    json: bool
    command: str


@dataclass(frozen=True, slots=True)
class Sizes:
    """Models of published sizes as asked for.

    Attributes:
        shape: "3b", or "3b+7b" for an edge and a cloud.
        dtype: a number format, or "int8".
        device: its name.
    """

    shape: str
    dtype: str
    device: str


class Benching:
    """Carries out a request.

    Args:
        request: what was asked for.
        quiet: show no progress.
        debug: show tracebacks.
    """

    def __init__(self, request: Request, *, quiet: bool, debug: bool) -> None:
        self._request = request
        self._view: Steps = choose_steps(quiet=quiet, debug=debug)

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

    def run_full_size(self, sizes: Sizes) -> None:
        """Builds, measures and prints models of published sizes.

        Raises:
            ConfigError: there is no such shape or device, or its memory is too small.
            CheckpointError: a package for the number format is missing.
        """
        request = self._request
        try:
            with startup.still_collector(), self._view.loading("PyTorch"):
                import torch

                from specdec_cli.bench.full_size import Order, measure
                from specdec_cli.bench.steps import block_of
            if request.config.config.runtime.threads is not None:
                torch.set_num_threads(request.config.config.runtime.threads)
            order = Order.parse(
                sizes.shape,
                sizes.dtype,
                sizes.device,
                k=block_of(request.config.config.decoding.k),
                acceptances=request.acceptances or _ACCEPTANCES,
                rounds=request.rounds,
            )
            found = measure(order, request.command, self._view.say)
        finally:
            self._view.close()
        if request.json:
            write_line(found.model_dump_json(by_alias=True))
            return
        from specdec_cli.console.full_size import print_full_size

        print_full_size(found)

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
        forced = self._forced(models, config.decoding, clips)
        block = block_of(config.decoding.k)
        memory = account(models, clips, capacity(config.decoding), block, libraries_mb)
        subject = Subject(request.command, str(request.config.path), captioner, clips, request.rounds)
        return build_result(subject, found, forced, memory)

    def _taken(self, captioner: Captioner, clips: Sequence[Clip]) -> Measurements:
        from specdec_cli.bench.run import Benchmark

        benchmark = Benchmark(captioner, clips)
        self._view.say("warming up: a first run of every contender, which does not count")
        benchmark.warm_up()
        self._view.begin(benchmark.turns(self._request.rounds))
        return benchmark.run(self._request.rounds, lambda _: self._view.advance())

    def _forced(self, models: Models, settings: DecodingConfig, clips: Sequence[Clip]) -> list[Forced]:
        from specdec_cli.bench.forced import force

        request = self._request
        if request.acceptances:
            self._view.say("forcing drafts to pass with the probabilities asked for")
        return list(force(models, clips, settings, request.acceptances, request.rounds))
