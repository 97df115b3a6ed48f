"""A load test of `specdec serve`: clients by the dozen, some of whom vanish, beside what `specdec batch` does.

    python -m tools.load --requests 1000 --at-a-time 32 --vanishing 0.1

It makes recordings, captions them with `specdec batch` and then through a server of the same models, both in this
process, and prints what was lost or differs, the memory of the server's process as it goes, and both rates. A client
that vanishes closes its connection after the first block; its recording is asked for again.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import soundfile
from openai import AsyncOpenAI

from specdec_cli.batch.local import LocalBackend
from specdec_cli.batch.output_file import Task
from specdec_cli.captioner import Captioner
from specdec_cli.config import load_config
from specdec_cli.inputs.recording import InputFile
from specdec_cli.labels import Lexicon
from specdec_cli.serve.limits import ServeLimits
from specdec_cli.serve.server import offered
from tests.cloud.serving import Running
from tests.mini_pair import RATE, voice

_DISTINCT = 100


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--at-a-time", type=int, default=32)
    parser.add_argument("--vanishing", type=float, default=0.1, help="share of clients")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a recording")
    options = parser.parse_args()
    resolved = load_config("mini", environ={"LANG": "en_US"})
    captioner = Captioner.load(resolved.config)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{n}.wav" for n in range(_DISTINCT)]
        for n, path in enumerate(paths):
            soundfile.write(path, voice(n, options.seconds), RATE)
        alike = captioner.labelled(Lexicon.load()).measuring()
        rate, expected = _batch(alike, paths, max(options.requests // 4, len(paths)))
        running = Running(offer := offered(captioner, resolved, ServeLimits(), 16))
        try:
            served = asyncio.run(_ask(running.url, paths, expected, options))
            assert offer.captions is not None
            print(f"left over: {offer.captions.under_way} requests, {offer.bodies.held} bytes")
        finally:
            running.stop()
        again, _ = _batch(alike, paths, options.requests // 4)  # a machine that others use is not as fast all the time
        print(f"of batch's rate: {2 * served / (rate + again):.2f}")


def _batch(captioner: Captioner, paths: list[Path], requests: int) -> tuple[float, list[str | None]]:
    """Recordings a second of a batch of so many, and the caption of each distinct one."""
    found: dict[str, str | None] = {}

    def tasks() -> Iterator[Task]:
        for n in range(requests):
            yield Task(InputFile(str(paths[n % len(paths)])))

    started, worked = time.perf_counter(), time.process_time()
    backend = LocalBackend(captioner, batch_size=16, workers=4)
    for outcome in backend.run(tasks(), lambda: False):
        assert outcome.line is not None
        found[outcome.line.file] = outcome.line.caption
    took, work = time.perf_counter() - started, time.process_time() - worked
    print(f"batch: {requests / took:.2f} recordings/s ({took:.1f} s), {work / requests:.3f} CPU s each", flush=True)
    return requests / took, [found.get(str(path)) for path in paths]


async def _ask(url: str, paths: list[Path], expected: list[str | None], options: Any) -> float:
    """Asks for every recording, so many at a time, and prints what came of it; returns recordings a second."""
    data = [base64.b64encode(path.read_bytes()).decode() for path in paths]
    places, process = asyncio.Semaphore(options.at_a_time), psutil.Process()
    every = round(1 / options.vanishing) if options.vanishing else 0
    wrong, vanished, memory, done = 0, 0, list[int](), 0
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=600)

    async def one(n: int) -> None:
        nonlocal wrong, vanished, done
        asked: Any = {
            "model": "specdec/hybrid",
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "input_audio", "input_audio": {"data": data[n % len(data)], "format": "wav"}}],
                }
            ],
        }
        async with places:
            if every and n % every == 0:
                stream = await client.chat.completions.create(**asked, stream=True)
                await anext(aiter(stream))
                await stream.close()
                vanished += 1
            answer = await client.chat.completions.create(**asked)
            wrong += answer.choices[0].message.content != expected[n % len(data)]
            done += 1
            if done % (options.requests // 10) == 0:
                memory.append(process.memory_info().rss >> 20)
                print(f"{done} requests, {memory[-1]} MiB", flush=True)

    started, worked = time.perf_counter(), time.process_time()
    await asyncio.gather(*(one(n) for n in range(options.requests)))
    took, work = time.perf_counter() - started, time.process_time() - worked
    await client.close()
    each = work / options.requests  # the clients' own among them
    print(f"serve: {options.requests / took:.2f} recordings/s ({took:.1f} s), {each:.3f} CPU s each")
    print(f"{done} answered, {options.requests - done} lost, {wrong} other than batch's, {vanished} vanished")
    print(f"memory: {memory[0]} MiB after a tenth, {memory[-1]} MiB at the end")
    return float(options.requests / took)


if __name__ == "__main__":
    main()
