"""A load test of `specdec serve`: clients by the dozen, some of whom vanish, beside what `specdec batch` does.

    python -m tools.load --requests 1000 --at-a-time 32 --vanishing 100 --pairs 5

It makes recordings and captions them in turns with `specdec batch` and through a server of the same models, both in
this process; the clients are another process. It prints for each pair of turns the rates and the CPU time of a
recording, and at the end what was lost or differs, and the memory of the server's process as it went. Of the clients
that vanish, half close their connection after the first block, and half before any; theirs are asked for again.
"""

from __future__ import annotations

import base64
import json
import multiprocessing
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Annotated, NamedTuple

import psutil
import soundfile
import typer

from specdec_cli.captioner import Captioner
from specdec_cli.captioning.job import Job, Sink, caption_missing
from specdec_cli.captioning.local import BatchBackend
from specdec_cli.cli.process import prepare_process
from specdec_cli.config import load_config
from specdec_cli.inputs.find import Paths
from specdec_cli.labels import Lexicon
from specdec_cli.serve.limits import ServeLimits
from specdec_cli.serve.server import offered
from tests.mini_pair import RATE, voice
from tests.support.servers import Running
from tests.support.transcripts import read_transcripts

_DISTINCT = 100
_TOGETHER = 16  # the default of both commands
_VANISHED_S = 0.05  # after which a client leaves that waits for no block


class Turn(NamedTuple):
    """The speed of one turn of `batch` or of `serve`."""

    per_s: float  # recordings whose captions somebody got
    cpu_s: float  # of this process, of each of them


def main(
    requests: Annotated[int, typer.Option(min=1, help="Requests in all.")] = 1000,
    at_a_time: Annotated[int, typer.Option(min=1, help="Requests at a time.")] = 32,
    vanishing: Annotated[int, typer.Option(min=0, help="Clients that vanish, beside the requests.")] = 100,
    rounds: Annotated[int, typer.Option("--pairs", min=1, help="Turns of batch and of serve.")] = 5,
    seconds: Annotated[float, typer.Option(help="Length of a recording.")] = 3.0,
) -> None:
    """Print rates, CPU time and memory of `serve` under load beside `batch`."""
    prepare_process()
    resolved = load_config("mini", environ={"LANG": "en_US"})
    running = Running(
        offer := offered(Captioner.load(resolved.config.running_long()), resolved, ServeLimits(), _TOGETHER)
    )
    assert offer.captions is not None
    process, memory = psutil.Process(), list[int]()
    try:
        with tempfile.TemporaryDirectory() as folder, multiprocessing.get_context("spawn").Pool(1) as clients:
            paths = [Path(folder) / f"{n}.wav" for n in range(_DISTINCT)]
            for n, path in enumerate(paths):
                soundfile.write(path, voice(n, seconds), RATE)
            expected = _batch(offer.captions.loaded, paths, len(paths))
            pairs = list[tuple[Turn, Turn]]()
            lost, wrong, vanished = 0, 0, 0
            asked, leaving = requests // rounds, vanishing // rounds

            def ask(count: int, leaving: int) -> None:
                nonlocal lost, wrong, vanished
                given = (running.port, paths, count, leaving, at_a_time)
                answers, left = clients.apply(_ask, given)
                lost += sum(answer is None for answer in answers)
                wrong += sum(answer not in (None, expected[n % len(paths)]) for n, answer in enumerate(answers))
                vanished += left

            ask(len(paths), 0)  # the first captions hold what loads late
            for number in range(rounds):
                turns = [lambda: _batch(offer.captions.loaded, paths, asked), lambda: ask(asked, leaving)]  # type: ignore[union-attr]
                order = (0, 1) if number % 2 == 0 else (1, 0)
                timed = {each: _timed(turns[each], asked) for each in order}
                batch, serve = timed[0], timed[1]
                pairs.append((batch, serve))
                memory.append(process.memory_info().rss >> 20)
                print(
                    f"batch {batch.per_s:.2f} recordings/s, {batch.cpu_s:.3f} CPU s each; serve {serve.per_s:.2f}, "
                    f"{serve.cpu_s:.3f}; {memory[-1]} MiB",
                    flush=True,
                )
        print(f"left over: {offer.captions.under_way} requests, {offer.bodies.held} bytes")
    finally:
        running.stop()
    print(f"{requests} asked, {lost} lost, {wrong} other than batch's, {vanished} clients vanished")
    print(f"memory: {memory[0]} MiB after the first pair, {memory[-1]} MiB after the last")
    for name, ratios in (
        ("answers/s", [serve.per_s / batch.per_s for batch, serve in pairs]),
        ("CPU s an answer", [serve.cpu_s / batch.cpu_s for batch, serve in pairs]),
    ):
        print(f"{name}: {statistics.median(ratios):.3f} of batch's ({min(ratios):.3f} to {max(ratios):.3f})")


def _timed(turn: Callable[[], object], recordings: int) -> Turn:
    started, worked = time.perf_counter(), time.process_time()
    turn()
    return Turn(recordings / (time.perf_counter() - started), (time.process_time() - worked) / recordings)


def _batch(captioner: Captioner, paths: list[Path], recordings: int) -> list[str | None]:
    """Captions so many recordings as `specdec batch` does, into a file; returns the caption of each distinct one."""
    with tempfile.TemporaryDirectory(dir=paths[0].parent) as folder:
        named = [Path(folder) / f"{n}.wav" for n in range(recordings)]
        for n, path in enumerate(named):
            path.hardlink_to(paths[n % len(paths)])
        output = Path(folder) / "captions.jsonl"
        job = Job(
            config=captioner.config,
            lexicon=Lexicon.shipped(),
            inputs=Paths([str(path) for path in named]),
            transcripts=output,
        )
        backend = BatchBackend(captioner, batch_size=_TOGETHER, workers=job.config.runtime.readers)
        caption_missing(job, nullcontext(backend), Sink())
        found = {line.file: line.caption for line in read_transcripts(output)}
        return [found[str(path)] for path in named[: len(paths)]]


def _ask(port: int, paths: list[Path], requests: int, leaving: int, at_a_time: int) -> tuple[list[str | None], int]:
    """In the clients' process: asks so often, while so many others vanish; the answers, and how many vanished.

    Clients are on the server's cores, so they are Python's plainest: an SDK would take a tenth of what is measured.
    """
    whole, streams = ([_body(path, stream=stream) for path in paths] for stream in (False, True))
    every = requests // leaving if leaving else 0
    own = threading.local()

    def one(n: int) -> tuple[str | None, bool]:
        vanishes, recording = bool(every) and n % every == 0, n % len(paths)
        if vanishes:
            begun = n // every % 2 == 0
            _vanish(port, (streams if begun else whole)[recording], begun=begun)
        own.connection = getattr(own, "connection", None) or HTTPConnection("127.0.0.1", port, timeout=600)
        try:
            _send(own.connection, whole[recording])
            answer = json.load(own.connection.getresponse())
            return answer["choices"][0]["message"]["content"], vanishes
        except (OSError, HTTPException, KeyError):  # refused, or gone
            own.connection = None
            return None, vanishes

    with ThreadPoolExecutor(at_a_time) as clients:
        answers = list(clients.map(one, range(requests)))
    return [answer for answer, _ in answers], sum(vanished for _, vanished in answers)


def _body(path: Path, *, stream: bool) -> bytes:
    data = base64.b64encode(path.read_bytes()).decode()
    sound = {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
    asked = {"model": "specdec/hybrid", "messages": [{"role": "user", "content": [sound]}], "stream": stream}
    return json.dumps(asked).encode()


def _send(connection: HTTPConnection, body: bytes) -> None:
    connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})


def _vanish(port: int, body: bytes, *, begun: bool) -> None:
    """A client that closes its connection: after the first block if `begun`, which needs a stream, else before any."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=600)) as connection:
        _send(connection, body)
        if begun:
            connection.getresponse().readline()
        else:
            time.sleep(_VANISHED_S)


if __name__ == "__main__":
    typer.run(main)
