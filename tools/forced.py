"""The loop at a chosen acceptance: `python -m tools.forced --acceptance 0.6,0.8,0.9`.

For models whose own acceptance says nothing, such as random weights. The target's text is known from a run of the
target alone. The drafter makes every forward of the edge that it would make anyway, but proposes the target's own next
tokens, each replaced by a wrong one with probability 1 - a (seeded). So every verified token is accepted with
probability a, independently of all others, which is what the formulas of speculative decoding assume. In hybrid mode
the drafter stands in for the gate too: it computes the evidence and escalates exactly the blocks with a wrong token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import torch
import typer
from pydantic import Field

from specdec_cli.bench.clips import Clip, Models, files_of, read_clips
from specdec_cli.bench.formulas import median
from specdec_cli.bench.timing import Timing, block_of, drive
from specdec_cli.captioner import Captioner
from specdec_cli.config.schema import AcceptanceConfig, DecodingConfig
from specdec_cli.decoding.draft import Draft, Drafter, Enough
from specdec_cli.decoding.gate import Gate, Judge
from specdec_cli.decoding.length import capacity, most_drafted
from specdec_cli.decoding.loop import Loop
from specdec_cli.decoding.stop import StopRules
from specdec_cli.decoding.verify import LocalVerifier, Verifier
from specdec_cli.metrics.bootstrap import Figures, Interval
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.processor import Prompt
from specdec_cli.models.session import Session
from tools.table import print_table, spread_text

ForcedMode = Literal["cloud", "lossless", "hybrid"]
LONGEST: Final = 48
"""Tokens of a forced text: these never end by themselves."""
_MODES: tuple[ForcedMode, ...] = ("cloud", "lossless", "hybrid")


class Forced(Figures):
    """Speed of one mode at one acceptance."""

    acceptance: float = Field(description="probability that a drafted token is the target's own")
    mode: ForcedMode
    tokens_per_s: Interval = Field(description="after the prefill")
    measured_acceptance: float | None = Field(description="accepted / verified tokens; null: not lossless")


class ForcedDrafter(Drafter):
    """Proposes the target's text with mistakes.

    Args:
        session: the clip on the edge.
        settings: of the run.
        target: the target's text; the draft ends with it.
        acceptance: probability that a proposed token is the target's own.
        generator: decides which are not.
    """

    def __init__(
        self,
        session: Session,
        settings: DecodingConfig,
        target: Sequence[int],
        acceptance: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__(session, settings, ())
        self._target = tuple(target)
        self._acceptance = acceptance
        self._coin = generator

    def propose(
        self,
        text: Sequence[int],
        k: int,
        judge: Judge,
        enough: Enough | None = None,  # noqa: ARG002
        top_k: int | None = None,  # noqa: ARG002
    ) -> Draft:
        """Up to `k` tokens, one forward each, whose likeliest token is found and not used."""
        ids: list[int] = []
        rows: list[torch.Tensor] = []
        for at in range(len(text), min(len(text) + k, len(self._target))):
            row, _ = self.row([*text, *ids])
            int(row.argmax())  # read back, as drafting does: on a GPU this waits
            rows.append(row)
            ids.append(self._proposal(at))
        scores = torch.cat(rows)
        judge.add_all(scores, ids)
        wrong = tuple(ids) != self._target[len(text) : len(text) + len(ids)]
        reason = judge.reason if judge.gate.name == "always" else "entropy" if wrong else None
        return Draft(tuple(ids), scores, tuple(judge.evidence), tuple(judge.scores), reason)

    def _proposal(self, at: int) -> int:
        token = self._target[at]
        right = float(torch.rand((), generator=self._coin)) < self._acceptance
        return token if right else (token + 1) % self.session.vocab_size


@dataclass(frozen=True, slots=True, eq=False)
class ForcedLoop:
    """Loops over one pair and one clip at chosen acceptances.

    Attributes:
        models: both.
        clip: the recording.
        settings: of any mode; k, processors and the length are used.
    """

    models: Models
    clip: Clip
    settings: DecodingConfig

    def target(self) -> tuple[int, ...]:
        """What the cloud writes alone, through its end token to the full length."""
        return drive(self._alone()).ids

    def take(self, mode: ForcedMode, target: tuple[int, ...], acceptance: float, seed: int) -> Timing:
        """One run; `target` as `target()` gives it."""
        generator = torch.Generator().manual_seed(seed)
        if mode == "cloud":
            return drive(self._alone())
        edge = self._session(self.models.edge, self.clip.edge)
        forced = ForcedDrafter(edge, self.settings, target, acceptance, generator)
        cloud = self._session(self.models.cloud, self.clip.cloud)
        verifier = LocalVerifier(cloud, self.settings, AcceptanceConfig(rule="greedy"), ())
        return drive(self._loop(mode, forced, verifier))

    def _alone(self) -> Loop:
        """The cloud's own text, drafted and never verified."""
        cloud = self._session(self.models.cloud, self.clip.cloud)
        return self._loop("cloud", Drafter(cloud, self.settings, ()), None)

    def _loop(self, mode: ForcedMode, drafter: Drafter, verifier: Verifier | None) -> Loop:
        """A loop that only the length limit ends; its gate computes the evidence and decides nothing in hybrid mode."""
        changed = {"mode": mode, "loop_period": 0, "sentences": None, "stop_strings": (), "cloud_prefill": "lazy"}
        settings = self.settings.model_copy(update=changed)
        gate = Gate("always") if mode == "lossless" else Gate("entropy", float("inf"))
        stop = StopRules(settings, (), self.models.cloud.processor.text)
        return Loop(drafter, verifier, gate, stop, settings, most_drafted(settings))

    def _session(self, model: AudioLM, prompt: Prompt) -> Session:
        return Session(model, prompt, capacity(self.settings), self.models.vocab_size)


def force(
    models: Models, clips: Sequence[Clip], settings: DecodingConfig, acceptances: Sequence[float], rounds: int
) -> Iterator[Forced]:
    """Every acceptance in every mode, in turns clip by clip."""
    lengths = {"max_new_tokens": min(settings.max_new_tokens, LONGEST), "k": block_of(settings.k)}
    short = settings.model_copy(update=lengths)
    loops = [ForcedLoop(models, clip, short) for clip in clips]
    targets = [loop.target() for loop in loops]
    for acceptance in acceptances:
        taken: dict[ForcedMode, list[Timing]] = {mode: [] for mode in _MODES}
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
                measured_acceptance=sum(run.accepted for run in runs) / judged if mode == "lossless" else None,
            )


def shares(text: str) -> list[float]:
    """The probabilities of a list such as "0.6,0.8".

    Raises:
        typer.BadParameter: one of them is none.
    """
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = [-1.0]
    if not all(0 <= share <= 1 for share in found):
        raise typer.BadParameter(f"probabilities from 0 to 1 are wanted, such as 0.6,0.8, not {text!r}")
    return found


def print_forced(found: Sequence[Forced]) -> None:
    """Prints a row for each acceptance."""
    rows = {forced.acceptance: [f"{forced.acceptance:g}"] for forced in found}
    for forced in found:
        passed = "" if forced.measured_acceptance is None else f", {100 * forced.measured_acceptance:.0f}% accepted"
        rows[forced.acceptance].append(spread_text(forced.tokens_per_s, 1) + passed)
    print_table("Forced acceptance, tokens/s after the prefill", ["a", *_MODES], list(rows.values()))


def main(
    acceptance: Annotated[str, typer.Option(help="Probabilities, separated by commas.")] = "0.6,0.8,0.9",
    config: Annotated[str, typer.Option(help="Shipped configuration or YAML file; both models are loaded.")] = "mini",
    clips: Annotated[str | None, typer.Option(help="A recording, or a folder of them. [default: the samples]")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Times through all clips.")] = 5,
    k: Annotated[int, typer.Option("-k", min=1, help="Drafted tokens in a block.")] = 5,
) -> None:
    """Measure the loop with drafts that are right with given probabilities."""
    wanted = shares(acceptance)
    captioner = Captioner.load(config, {"decoding.mode": "hybrid", "decoding.k": k})
    models, recordings = Models.of(captioner.pair), read_clips(captioner, files_of(clips))
    print_forced(list(force(models, recordings, captioner.config.decoding, wanted, rounds)))


if __name__ == "__main__":
    typer.run(main)
