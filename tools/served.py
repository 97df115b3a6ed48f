"""What a batch costs whose two models are behind vLLM servers: clips a second, requests and client CPU time a clip.

    python -m tools.served RECORDINGS -c pair.yaml --in-flight 1,4,16
    python -m tools.served RECORDINGS -c pair.yaml --in-flight 16 --restart "docker restart edge"

Requests are counted by the servers' own /metrics. With `--restart` a command is run once a third of the captions is
there: it is to kill one of the servers and start it again. The output is then checked: nothing lost, nothing twice.
"""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Annotated, Any

import typer

from specdec_cli.config import load_config

_COUNTED = re.compile(r'^http_requests_total\{handler="(?:/inference/v1/generate|/tokenize)".*\} ([0-9.e+]+)$', re.M)


def requests(urls: list[str]) -> list[float]:
    """So far, at each server; 0 at one that is down."""
    found = []
    for url in urls:
        try:
            with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
                found.append(sum(map(float, _COUNTED.findall(answer.read().decode()))))
        except OSError:
            found.append(0.0)
    return found


def run(recordings: Path, config: str, in_flight: int, restart: str | None) -> dict[str, Any]:
    """One batch to a new output."""
    loaded = load_config(config).config
    urls = [side.url for side in (loaded.edge, loaded.cloud) if side is not None and side.url is not None]
    before, cpu, started = requests(urls), resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "captions.jsonl"
        command = [sys.executable, "-m", "specdec_cli", "batch", str(recordings), "-o", str(output), "-c", config]
        batch = subprocess.Popen([*command, "--set", f"runtime.in_flight={in_flight}", "-q"])
        total = sum(1 for each in recordings.iterdir() if each.suffix in (".wav", ".flac"))
        while restart is not None and batch.poll() is None:
            time.sleep(0.5)
            if output.exists() and output.read_bytes().count(b"\n") >= total / 3:
                subprocess.run(restart, shell=True, check=True)
                break
        batch.wait()
        wall_s, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        lines = [json.loads(line) for line in output.read_text().splitlines()]
    clips = len({line["file"] for line in lines})
    asked = [now - then for now, then in zip(requests(urls), before, strict=True)]
    spent_s = after.ru_utime + after.ru_stime - cpu.ru_utime - cpu.ru_stime
    return {
        "in_flight": in_flight,
        "recordings": total,
        "captions": clips,
        "twice": len(lines) - clips,
        "failed": sum(bool(line.get("error")) for line in lines),
        "degraded": sum(bool(line.get("degraded")) for line in lines),
        "clips_per_s": round(clips / wall_s, 2),
        # a server that was started again counts from 0
        "requests_per_clip": None if restart else [round(count / max(clips, 1), 2) for count in asked],
        "client_cpu_ms_per_clip": round(1e3 * spent_s / max(clips, 1), 1),
    }


def main(
    recordings: Annotated[Path, typer.Argument(help="A folder of recordings.")],
    config: Annotated[str, typer.Option("-c", help="Configuration with both servers.")],
    in_flight: Annotated[str, typer.Option(help="Clips under way, e.g. 1,4,16.")] = "1,4,16",
    restart: Annotated[str | None, typer.Option(help="Command that kills a server and starts it again.")] = None,
) -> None:
    """Print one line of figures for each number of clips under way."""
    for number in in_flight.split(","):
        print(json.dumps(run(recordings, config, int(number), restart)), flush=True)


if __name__ == "__main__":
    typer.run(main)
