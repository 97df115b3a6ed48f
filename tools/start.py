"""From the command to the first token, the parts of a start in fresh processes: `python -m tools.start`.

Each process does what `specdec caption` does and notes the time after each part. It and the process that starts it read
the system-wide monotonic clock, so that the interpreter's own start counts too.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from statistics import median
from typing import Annotated, Any, Final

import typer

from tools.table import print_table

PARTS: Final[tuple[tuple[str, str], ...]] = (
    ("interpreter", "Python itself"),
    ("command", "specdec's command line and the configuration"),
    ("torch", "import of PyTorch"),
    ("transformers", "import of what is used of transformers"),
    ("ours", "import of the rest of specdec"),
    ("weights", "reading both checkpoints as the mode needs them"),
    ("audio", "reading and checking the recording, features, prompt"),
    ("prefill", "audio encoding and prefill of the first caption"),
    ("first token", "from there to the first committed block"),
    ("warm-up", "of prefill and first token: what a second caption of the clip does not take"),
)
"""Name and meaning of each part, in the order of a start."""

WITHIN: Final = frozenset({"warm-up"})
"""Parts that lie within others."""

Times = dict[str, tuple[float, float]]
"""Part -> (wall, CPU) milliseconds."""


def main(
    config: Annotated[str | None, typer.Option("--config", "-c", help="Shipped configuration or YAML file.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="Any setting, NAME=VALUE. Repeatable.")] = None,
    clip: Annotated[str | None, typer.Option(help="A recording. [default: a second of test sound]")] = None,
    starts: Annotated[int, typer.Option(min=1, help="Fresh processes; their medians count.")] = 3,
) -> None:
    """Time the parts of a start, from the command to the first token."""
    found = [_start(config, settings or [], clip) for _ in range(starts)]
    medians = {name: [median(run[name][clock] for run in found) for clock in (0, 1)] for name, _ in PARTS}
    rows = [(f"{name}: {meaning}", *(f"{ms:.0f} ms" for ms in medians[name])) for name, meaning in PARTS]
    together = (sum(ms[clock] for name, ms in medians.items() if name not in WITHIN) for clock in (0, 1))
    rows.append(("together", *(f"{ms:.0f} ms" for ms in together)))
    print_table(f"From the command to the first token, medians of {starts} starts", ("", "wall", "CPU"), rows)


def _start(config: str | None, settings: Sequence[str], clip: str | None) -> Times:
    asked = json.dumps({"began": time.monotonic(), "config": config, "settings": list(settings), "clip": clip})
    command = [sys.executable, "-m", "tools.start", asked]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise SystemExit(f"the command failed when its start was timed: {lines[-1] if lines else 'without a message'}")
    found: Times = json.loads(done.stdout.splitlines()[-1])
    return found


def _in_fresh_process(asked: dict[str, Any]) -> None:
    """Starts, captions, and prints the parts as JSON."""
    parts: Times = {"interpreter": (_ms(time.monotonic() - asked["began"]), _ms(time.process_time()))}
    with _part(parts, "command"):
        from specdec_cli.cli.process import prepare_process
        from specdec_cli.config import load_config, parse_setting

        prepare_process()
        resolved = load_config(asked["config"], flags=dict(map(parse_setting, asked["settings"])))
    with _part(parts, "torch"):
        import_module("torch")
    with _part(parts, "transformers"):
        from specdec_cli.models.families import FAMILIES

        _ = FAMILIES["qwen2.5-omni"].module_class  # transformers imports a family when its class is first looked up
    with _part(parts, "ours"):
        from specdec_cli.captioner import Captioner
    with _part(parts, "weights"):
        captioner = Captioner.load(resolved.config)
    with _part(parts, "audio"):
        run = _run(captioner, asked["clip"])
    first, again = _to_the_first_block(run), _to_the_first_block(_run(captioner, asked["clip"]))
    saved = [max(sum(first[name][clock] - again[name][clock] for name in first), 0.0) for clock in (0, 1)]
    print(json.dumps({**parts, **first, "warm-up": saved}))


@contextmanager
def _part(parts: Times, name: str) -> Iterator[None]:
    wall, cpu = time.monotonic(), time.process_time()
    yield
    parts[name] = (_ms(time.monotonic() - wall), _ms(time.process_time() - cpu))


def _run(captioner: Any, clip: str | None) -> Any:
    from specdec_cli.models.processor import test_sound

    if clip is None:
        return captioner.run_samples(
            test_sound(1.0, captioner.sampling_rate), captioner.sampling_rate, name="test sound"
        )
    return next(captioner.runs(clip))


def _to_the_first_block(run: Any) -> Times:
    """The prefill, and what follows it up to the first committed block."""
    from specdec_cli.transcript.round import Round
    from specdec_cli.types import Prefill

    wall, cpu = time.monotonic(), time.process_time()
    prefill_ms = 0.0
    for update in run:
        event = update.event
        if isinstance(event, Prefill):
            prefill_ms += event.encoder_ms + event.prefill_ms
        if isinstance(event, Round):
            break
    walls, cpus = _ms(time.monotonic() - wall), _ms(time.process_time() - cpu)
    share = min(prefill_ms / walls, 1.0)  # events have no CPU time; its share is taken to be that of the wall
    return {"prefill": (prefill_ms, cpus * share), "first token": (walls - prefill_ms, cpus * (1 - share))}


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 2)


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1].startswith("{"):
        _in_fresh_process(json.loads(sys.argv[1]))
    else:
        typer.run(main)
