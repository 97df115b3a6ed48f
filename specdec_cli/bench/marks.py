"""A start of `specdec caption` that notes how long each part took; run by `start` in a process of its own."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner


class Marks:
    """Milliseconds of each part, by the clock and of the processor.

    Args:
        began: when the process was asked for, on the monotonic clock.
    """

    def __init__(self, began: float) -> None:
        self.parts = {"interpreter": (_ms(time.monotonic() - began), _ms(time.process_time()))}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """What happens within is this part."""
        wall, cpu = time.monotonic(), time.process_time()
        yield
        self.parts[name] = (_ms(time.monotonic() - wall), _ms(time.process_time() - cpu))


def main() -> None:
    """Starts, captions, and prints the parts as JSON."""
    asked: dict[str, Any] = json.loads(sys.argv[1])
    marks = Marks(asked["began"])
    with marks.part("command"):
        from specdec_cli.cli import startup
        from specdec_cli.cli.configured import resolve

        resolved = resolve(asked["config"], {}, asked["settings"])
    with startup.still_collector():
        with marks.part("torch"):
            import torch  # noqa: F401
        with marks.part("transformers"):
            from specdec_cli.models.families import QwenOmni

            QwenOmni().module_class()  # transformers imports a family's modules when its class is first looked up
        with marks.part("ours"):
            from specdec_cli.captioner import Captioner
        with marks.part("weights"):
            captioner = Captioner.load(resolved.config)
    caption(captioner, asked["clip"], marks)
    print(json.dumps(marks.parts))


def caption(captioner: Captioner, clip: str | None, marks: Marks) -> None:
    """Captions a recording to its first block, twice; the first time is part of the start."""
    with marks.part("audio"):
        run = _run(captioner, clip)
    first = _to_the_first_block(run)
    again = _to_the_first_block(_run(captioner, clip))
    for name in ("prefill", "first token"):
        marks.parts[name] = first[name]
    saved = [max(sum(first[name][clock] - again[name][clock] for name in first), 0.0) for clock in (0, 1)]
    marks.parts["warm-up"] = (saved[0], saved[1])


def _run(captioner: Captioner, clip: str | None) -> Any:
    from specdec_cli.doctor import test_sound

    if clip is None:
        return captioner.run_samples(test_sound(captioner.sampling_rate), name="test sound")
    return next(captioner.runs(clip))


def _to_the_first_block(run: Any) -> dict[str, tuple[float, float]]:
    """Wall and CPU milliseconds of the prefill and of what follows it, up to the first committed block."""
    from specdec_cli.types import Prefill, Round

    wall, cpu = time.monotonic(), time.process_time()
    read_ms = 0.0
    for update in run:
        event = update.event
        if isinstance(event, Prefill):
            read_ms += event.encoder_ms + event.prefill_ms
        if isinstance(event, Round):
            break
    walls, cpus = _ms(time.monotonic() - wall), _ms(time.process_time() - cpu)
    # the events tell how long the forwards took by the clock; the processor's share is taken to be the same
    share = min(read_ms / walls, 1.0)
    return {"prefill": (read_ms, cpus * share), "first token": (walls - read_ms, cpus * (1 - share))}


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 2)


if __name__ == "__main__":
    main()
