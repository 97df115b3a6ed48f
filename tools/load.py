"""How much a verify server bears: clips in parallel against verifications a second, up to where more bring no more.

    specdec serve &
    python -m tools.load http://127.0.0.1:8765

Every clip is sent once and then verified without a pause: a draft of `k` tokens behind a text that grows. The
drafts mean nothing, so most are rejected; what a verification costs does not depend on that.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median
from typing import Annotated, Final

import numpy as np
import typer

from specdec_cli.cloud.cloud import RemoteVerifier
from specdec_cli.cloud.remote import HttpCloud
from specdec_cli.config import Config, load_config
from specdec_cli.decoding.block import Draft
from specdec_cli.errors import CloudError
from specdec_cli.models.loading import load_processor
from specdec_cli.models.processor import Prompt

_TEXT: Final = 60  # tokens of a text before the clip counts as done and another is opened
_KNEE: Final = 0.9


@dataclass(frozen=True, slots=True)
class Bearing:
    """What came of so many clips in parallel.

    Attributes:
        sessions: clips in parallel.
        per_s: verifications a second.
        median_ms, p95_ms: from question to answer.
        failed: questions without an answer.
    """

    sessions: int
    per_s: float
    median_ms: float
    p95_ms: float
    failed: int


def press(
    link: HttpCloud, prompt: Prompt, words: Sequence[int], sessions: int, seconds: float, k: int, config: Config
) -> Bearing:
    """Verifies blocks of `sessions` clips at once for so long; the calls that send the clips are left out.

    Args:
        link: to the server.
        prompt: the clip's.
        words: token ids that drafts are made of.
        sessions, seconds, k: clips in parallel, time, drafted tokens in a question.
        config: settings whose length limit leaves room for the texts.
    """
    askers = [_Asker(link, prompt, words, number, k, config) for number in range(sessions)]
    with ThreadPoolExecutor(sessions) as pool:
        list(pool.map(_Asker.open, askers))
        started = time.perf_counter()
        list(pool.map(lambda asker: asker.ask_until(started + seconds), askers))
        elapsed = time.perf_counter() - started
    times = sorted(ms for asker in askers for ms in asker.times_ms)
    if not times:
        raise CloudError(f"{link.name} answered nothing in {seconds:g} s")
    p95 = times[min(int(len(times) * 0.95), len(times) - 1)]
    failed = sum(asker.failed for asker in askers)
    return Bearing(sessions, len(times) / elapsed, median(times), p95, failed)


class _Asker:
    """One clip after the other, and questions about each."""

    def __init__(
        self, link: HttpCloud, prompt: Prompt, words: Sequence[int], number: int, k: int, config: Config
    ) -> None:
        self.times_ms: list[float] = []
        self.failed = 0
        self._link = link
        self._prompt = prompt
        self._config = config
        self._words = words
        self._random = random.Random(number)
        self._k = k
        self._text: tuple[int, ...] = ()
        self._verifier = self._open()

    def open(self) -> None:
        """Sends the clip."""
        self._ask()

    def ask_until(self, end: float) -> None:
        """Verifies until `end`; a clip whose text is long enough is replaced by another."""
        while time.perf_counter() < end:
            if len(self._text) >= _TEXT:
                self._verifier.close()
                self._text, self._verifier = (), self._open()
                self._ask()
            started = time.perf_counter()
            if self._ask():
                self.times_ms.append((time.perf_counter() - started) * 1e3)

    def _ask(self) -> bool:
        """One question; whether it was answered."""
        draft = Draft(tuple(self._random.choices(self._words, k=self._k)))
        try:
            verdict = self._verifier.verify(self._text, draft)
        except CloudError:
            self.failed += 1
            return False
        self._text = (*self._text, *draft.ids[: verdict.accepted], verdict.token)
        return True

    def _open(self) -> RemoteVerifier:
        link = self._link
        return link.verifier(link, self._prompt, self._config, link.vocab_size, link.processor.eos_ids)


def knee(found: list[Bearing]) -> Bearing:
    """The fewest clips in parallel that come near the most verifications a second."""
    most = max(bearing.per_s for bearing in found)
    return next(bearing for bearing in found if bearing.per_s >= _KNEE * most)


def main(
    url: Annotated[str, typer.Argument(help="Of the server.")],
    config: Annotated[str, typer.Option("--config", help="Its edge makes prompt and features.")] = "mini",
    sessions: Annotated[str, typer.Option("--sessions", help="Clips in parallel.")] = "1,2,4,8,16,32,64",
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="For each number of clips.")] = 5.0,
    k: Annotated[int, typer.Option("-k", min=1, max=64, help="Drafted tokens in a question.")] = 5,
    clip_s: Annotated[float, typer.Option("--clip-s", min=0.1, help="Length of the clips, seconds.")] = 5.0,
    token_env: Annotated[str | None, typer.Option("--token-env", help="Variable with the server's token.")] = None,
) -> None:
    """Press a verify server with more and more clips in parallel."""
    settings = {"cloud.url": url, "cloud.token_env": token_env, "cloud.timeout_s": 60.0}
    settings |= {"decoding.k": k, "decoding.max_new_tokens": _TEXT + k + 1}
    resolved = load_config(config, flags={name: value for name, value in settings.items() if value is not None}).config
    assert resolved.edge is not None
    assert resolved.cloud is not None
    processor = load_processor(resolved.edge, offline=resolved.runtime.offline)
    noise = np.random.default_rng(0).standard_normal(round(clip_s * processor.sampling_rate)).astype(np.float32)
    prompt = processor.prompt(0.05 * noise, resolved.instruction())
    link = HttpCloud(resolved.cloud, processor, own=False)
    words = [id_ for id_ in range(link.vocab_size) if id_ not in processor.banned_ids]
    found = []
    typer.echo("clips  verifications/s  median ms  p95 ms  failed")
    for count in map(int, sessions.split(",")):
        bearing = press(link, prompt, words, count, seconds, k, resolved)
        found.append(bearing)
        figures = f"{bearing.per_s:>15.0f}  {bearing.median_ms:>9.1f}  {bearing.p95_ms:>6.1f}  {bearing.failed:>6}"
        typer.echo(f"{count:>5}  {figures}")
    best = knee(found)
    typer.echo(f"knee: {best.sessions} clips, {best.per_s:.0f} verifications/s at {best.median_ms:.1f} ms")
    link.close()


if __name__ == "__main__":
    typer.run(main)
