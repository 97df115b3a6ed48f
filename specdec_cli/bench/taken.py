"""One clip captioned once by one contender: how long it took, and where."""

from __future__ import annotations

from dataclasses import dataclass

from specdec_cli.bench.clips import Clip
from specdec_cli.captioner import Captioner
from specdec_cli.decoding.build import build_loop
from specdec_cli.decoding.loop import Loop
from specdec_cli.types import Finished, Round


@dataclass(frozen=True, slots=True)
class Taken:
    """A measurement.

    Attributes:
        ids: the text, eos included if it was reached.
        wall_ms: from the prompt to the last token.
        reading_ms: of that, in audio encoding and prefill.
        steps_ms: of that, in all other forwards; None where they were not timed one by one.
        judged: drafted tokens that were verified one after the other: those that passed, and the first that did not.
        passed: those that passed.
    """

    ids: tuple[int, ...]
    wall_ms: float
    reading_ms: float
    steps_ms: float | None
    judged: int = 0
    passed: int = 0

    @property
    def decoding_ms(self) -> float:
        """Milliseconds after audio encoding and prefill."""
        return self.wall_ms - self.reading_ms

    @property
    def tokens_per_s(self) -> float:
        """Tokens per second, everything included."""
        return 1e3 * len(self.ids) / self.wall_ms

    @property
    def decoding_tokens_per_s(self) -> float:
        """Tokens per second after audio encoding and prefill."""
        return 1e3 * len(self.ids) / self.decoding_ms

    @property
    def overhead_ms(self) -> float | None:
        """Milliseconds outside of forwards."""
        return None if self.steps_ms is None else self.decoding_ms - self.steps_ms

    @property
    def overhead(self) -> float | None:
        """Wall over the sum of all forwards, less 1."""
        return None if self.steps_ms is None else self.wall_ms / (self.reading_ms + self.steps_ms) - 1

    @property
    def decoding_overhead(self) -> float | None:
        """The same after audio encoding and prefill; None where no forward was made there."""
        return self.decoding_ms / self.steps_ms - 1 if self.steps_ms else None


def caption(captioner: Captioner, clip: Clip) -> Taken:
    """Captions `clip` in the captioner's mode, with fresh sessions."""
    pair = captioner.pair
    edge, cloud = (clip.edge if pair.edge else None), (clip.cloud if pair.cloud else None)
    return drive(build_loop(pair, captioner.config, edge, cloud, classifier=captioner.classifier))


def drive(loop: Loop) -> Taken:
    """Runs a loop to its end."""
    judged = passed = 0
    for event in loop.run():
        if isinstance(event, Round) and event.escalated:
            # after the first token that did not pass nothing was judged (Leviathan et al. 2023, definition 3.1)
            passed += event.accepted
            judged += min(event.accepted + 1, len(event.draft_ids))
        elif isinstance(event, Finished):
            works = [work for work in (event.edge, event.cloud) if work is not None]
            reading = sum(work.encoder_ms + work.prefill_ms for work in works)
            steps = sum(work.step_ms for work in works)
            return Taken(event.token_ids, event.total_ms, reading, steps, judged, passed)
    raise RuntimeError("a loop ended without a Finished")
