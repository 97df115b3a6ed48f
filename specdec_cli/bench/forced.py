"""The loop at a chosen acceptance, for models whose own acceptance says nothing, as that of random weights.

The target's text is known from a run of the target alone. The drafter makes every forward of the edge that it would
make anyway, but proposes the target's own next tokens, each replaced by a wrong one with probability 1 - a (seeded).
So a token that is judged passes with probability a, independently of all others, which is what the formulas of
speculative decoding assume, and everything that is timed is done. In hybrid mode an oracle stands in for the gate: it
computes the evidence as a gate would and escalates exactly the blocks that hold a wrong token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import torch

from specdec_cli.bench.clips import Clip, Models
from specdec_cli.bench.formulas import median
from specdec_cli.bench.result import Forced
from specdec_cli.bench.steps import block_of
from specdec_cli.bench.taken import Taken, drive
from specdec_cli.decoding.draft import Draft, Drafter, Stop
from specdec_cli.decoding.engine import Engine
from specdec_cli.decoding.gate import Decision, Gate, Judge, make_gate
from specdec_cli.decoding.options import DecodingOptions
from specdec_cli.decoding.processors import ScoreProcessors
from specdec_cli.decoding.stopping import StopRules
from specdec_cli.decoding.verify import SessionVerifier
from specdec_cli.models.family import AudioLanguageModel, PromptInputs
from specdec_cli.models.session import Session, Steps

ForcedMode = Literal["cloud", "lossless", "hybrid"]
LONGEST: Final = 48
"""Tokens of a forced text: these never end by themselves."""
_MODES: tuple[ForcedMode, ...] = ("cloud", "lossless", "hybrid")


class ForcedDrafter(Drafter):
    """Proposes the target's text with mistakes.

    Args:
        session: the clip on the edge.
        processors: of the edge.
        target: the target's text; the draft ends with it.
        acceptance: probability that a proposed token is the target's own.
        generator: decides which are not.
    """

    def __init__(
        self,
        session: Session,
        processors: ScoreProcessors,
        target: Sequence[int],
        acceptance: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__(session, processors, (), generator, sampling=False)
        self._score = processors
        self._target = target
        self._acceptance = acceptance
        self._coin = generator

    def propose(self, text: Sequence[int], k: int, stop: Stop | None = None) -> Steps[Draft]:  # noqa: ARG002
        """Up to `k` tokens, one forward each, whose likeliest token is found and not used."""
        ids: list[int] = []
        rows: list[torch.Tensor] = []
        for at in range(len(text), min(len(text) + k, len(self._target))):
            so_far = (*text, *ids)
            scores = self._score(so_far, (yield self.session.ask(so_far, 1)))
            int(scores.argmax())  # read back, as drafting does: on a GPU this waits
            rows.append(scores)
            ids.append(self._proposal(at))
        return Draft(tuple(ids), torch.cat(rows))

    def _proposal(self, at: int) -> int:
        token = self._target[at]
        right = float(torch.rand((), generator=self._coin)) < self._acceptance
        return token if right else (token + 1) % self.session.vocab_size


@dataclass(frozen=True, slots=True)
class OracleGate(Gate):
    """Escalates exactly the blocks that hold another token than `target`."""

    target: tuple[int, ...] = ()

    def open(self, start: int) -> Judge:
        """Begins a block behind `start` tokens of text."""
        return _OracleJudge(self, start, self.target)


class _OracleJudge(Judge):
    def __init__(self, gate: Gate, start: int, target: tuple[int, ...]) -> None:
        super().__init__(gate, start)
        self._wanted = target[start:]

    def decide(self, draft: Draft) -> Decision:
        wrong = draft.ids != self._wanted[: len(draft.ids)]
        return replace(super().decide(draft), escalate=wrong, reason="entropy" if wrong else None)


@dataclass(frozen=True, slots=True, eq=False)
class ForcedLoop:
    """Engines over one pair and one clip at chosen acceptances.

    Attributes:
        models: both.
        clip: what they hear.
        options: of any mode; k, processors and the length are used.
    """

    models: Models
    clip: Clip
    options: DecodingOptions

    def target(self) -> tuple[int, ...]:
        """What the cloud writes alone, through its end token to the full length."""
        options = self._in("cloud")
        session = self._session(self.models.cloud, self.clip.cloud)
        drafter = Drafter(session, self._processors(session), (), torch.Generator(), sampling=False)
        return drive(Engine(drafter, None, make_gate("never"), self._endless(session), options)).ids

    def take(self, mode: ForcedMode, target: tuple[int, ...], acceptance: float, seed: int) -> Taken:
        """One run; `target` as `target()` gives it."""
        options = self._in(mode)
        generator = torch.Generator().manual_seed(seed)
        cloud = self._session(self.models.cloud, self.clip.cloud)
        if mode == "cloud":
            drafter = Drafter(cloud, self._processors(cloud), (), generator, sampling=False)
            return drive(Engine(drafter, None, make_gate("never"), self._endless(cloud), options))
        edge = self._session(self.models.edge, self.clip.edge)
        forced = ForcedDrafter(edge, self._processors(edge), target, acceptance, generator)
        verifier = SessionVerifier(cloud, self._processors(cloud), options, generator, ())
        gate = make_gate("always") if mode == "lossless" else OracleGate("entropy", float("inf"), target=target)
        return drive(Engine(forced, verifier, gate, self._endless(edge), options))

    def _in(self, mode: ForcedMode) -> DecodingOptions:
        return replace(self.options, mode=mode, loop_period=0, acceptance="greedy")

    def _session(self, model: AudioLanguageModel, inputs: PromptInputs) -> Session:
        return Session(model, inputs, self.options.capacity, self.models.vocab_size)

    def _processors(self, session: Session) -> ScoreProcessors:
        return ScoreProcessors(self.options, session.prompt_ids, (), session.model.device)

    def _endless(self, session: Session) -> StopRules:
        """No end but the length limit."""
        return StopRules(replace(self.options, sentences=None, stop_strings=()), (), session.model.text)


def force(
    models: Models, clips: Sequence[Clip], options: DecodingOptions, acceptances: Sequence[float], rounds: int
) -> Iterator[Forced]:
    """Every acceptance in every mode, in turns clip by clip."""
    short = replace(options, max_new_tokens=min(options.max_new_tokens, LONGEST), k=block_of(options.k))
    loops = [ForcedLoop(models, clip, short) for clip in clips]
    targets = [loop.target() for loop in loops]
    for acceptance in acceptances:
        taken: dict[ForcedMode, list[Taken]] = {mode: [] for mode in _MODES}
        for seed in range(rounds):
            for loop, target in zip(loops, targets, strict=True):
                for mode in _MODES:
                    taken[mode].append(loop.take(mode, target, acceptance, seed))
        for mode, runs in taken.items():
            judged = sum(run.judged for run in runs)
            yield Forced(
                acceptance=acceptance,
                mode=mode,
                tokens_per_s=median([run.decoding_tokens_per_s for run in runs]),
                measured_acceptance=sum(run.passed for run in runs) / judged if mode == "lossless" else None,
            )
