"""The loop at a chosen acceptance: `python -m tools.forced --acceptance 0.6,0.8,0.9`.

For models whose own acceptance says nothing, such as random weights. The target's text is known from a run of the
target alone. The drafter makes every forward of the edge that it would make anyway, but proposes the target's own next
tokens, each replaced by a wrong one with probability 1 - a (seeded). So every verified token is accepted with
probability a, independently of all others, which is what the formulas of speculative decoding assume. In hybrid mode
the drafter stands in for the gate too: it computes the evidence and escalates exactly the blocks with a wrong token.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import torch
import typer
from pydantic import Field

from specdec_cli.bench.clips import Clip, files_of, read_clips
from specdec_cli.bench.formulas import median
from specdec_cli.bench.timing import Timing, drive
from specdec_cli.captioner import Captioner
from specdec_cli.config.schema import Config, DecodingConfig, GateConfig
from specdec_cli.decoding.build import Pair, build_loop
from specdec_cli.decoding.draft import Draft, Drafter, Enough
from specdec_cli.decoding.gate import Judge
from specdec_cli.decoding.loop import Loop
from specdec_cli.metrics.bootstrap import Figures, Interval
from specdec_cli.models.session import Session
from tools.table import print_table, spread_text

ForcedMode = Literal["cloud", "lossless", "hybrid"]
LONGEST: Final = 48
"""Tokens of a forced text: these never end by themselves."""
_MODES: tuple[ForcedMode, ...] = ("cloud", "lossless", "hybrid")


class Forced(Figures):
    """Speed of one mode at one acceptance."""

    name: str = Field(description="of what is compared, if anything is")
    acceptance: float = Field(description="probability that a drafted token is the target's own")
    mode: ForcedMode
    caption_tokens_per_s: Interval = Field(description="everything included")
    tokens_per_s: Interval = Field(description="after audio encoding and prefill")
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
        pair: an edge that is loaded, and a cloud that is loaded or at an address.
        clip: the recording.
        config: of any mode; k, processors and the length are used. Nothing is drafted ahead.
        name: of what is compared.
    """

    pair: Pair
    clip: Clip
    config: Config
    name: str = ""

    def target(self) -> tuple[int, ...]:
        """What the cloud writes alone, to the full length."""
        return drive(self._loop("cloud")).ids

    def take(self, mode: ForcedMode, target: tuple[int, ...], acceptance: float, seed: int) -> Timing:
        """One run; `target` as `target()` gives it."""
        loop = self._loop(mode)
        if mode != "cloud":
            assert loop.drafter is not None
            generator = torch.Generator().manual_seed(seed)
            loop.drafter = ForcedDrafter(loop.drafter.session, loop.settings, target, acceptance, generator)
        return drive(loop)

    def _loop(self, mode: ForcedMode) -> Loop:
        """A loop that only the length limit ends; its gate computes the evidence and decides nothing in hybrid mode."""
        settings = self.config.decoding
        longest = min(settings.max_new_tokens, LONGEST)
        changed: dict[str, object] = {"mode": mode, "defer": False, "draft_ahead": "off"}
        changed |= {"max_new_tokens": longest, "min_new_tokens": longest, "loop_period": 0, "cloud_prefill": "lazy"}
        changed |= {"sentences": None, "stop_strings": (), "require_cloud": True}
        sections = {"decoding": settings.model_copy(update=changed), "gate": GateConfig(threshold=1e9)}
        return build_loop(self.pair, self.config.model_copy(update=sections), self.clip.edge, self.clip.cloud)


def force(loops: Sequence[ForcedLoop], acceptances: Sequence[float], rounds: int) -> Iterator[Forced]:
    """Every acceptance in every mode, in turns loop by loop; those of one name, together."""
    targets = [loop.target() for loop in loops]
    for acceptance in acceptances:
        taken: dict[tuple[str, ForcedMode], list[Timing]] = {}
        for seed in range(rounds):
            for loop, target in zip(loops, targets, strict=True):
                for mode in _MODES:
                    taken.setdefault((loop.name, mode), []).append(loop.take(mode, target, acceptance, seed))
        for (name, mode), runs in taken.items():
            judged = sum(run.judged for run in runs)
            yield Forced(
                name=name,
                acceptance=acceptance,
                mode=mode,
                caption_tokens_per_s=median([run.tokens_per_s for run in runs]),
                tokens_per_s=median([run.decoding_tokens_per_s for run in runs]),
                measured_acceptance=sum(run.accepted for run in runs) / judged if mode == "lossless" else None,
            )


def numbers(text: str, most: float = math.inf) -> list[float]:
    """The numbers, from 0 to `most`, of a list such as "0.6,0.8"; none of an empty one.

    Raises:
        typer.BadParameter: one of them is none.
    """
    try:
        found = [float(part) for part in text.split(",") if text]
    except ValueError:
        found = [-1.0]
    if not all(0 <= number <= most for number in found):
        raise typer.BadParameter(f"numbers from 0 to {most:g} are wanted, separated by commas, not {text!r}")
    return found


def print_forced(found: Sequence[Forced]) -> None:
    """Prints a row for each acceptance and name."""
    rows: dict[tuple[str, float], list[str]] = {}
    for forced in found:
        passed = "" if forced.measured_acceptance is None else f", {100 * forced.measured_acceptance:.0f}% accepted"
        speeds = f"{spread_text(forced.caption_tokens_per_s)} / {spread_text(forced.tokens_per_s)}"
        row = rows.setdefault((forced.name, forced.acceptance), [f"{forced.name} {forced.acceptance:g}".strip()])
        row.append(speeds + passed)
    title = "Forced acceptance a, tokens/s of whole captions / after the prefills"
    print_table(title, ["a", *_MODES], list(rows.values()))


def main(
    acceptance: Annotated[str, typer.Option(help="Probabilities, separated by commas.")] = "0.6,0.8,0.9",
    config: Annotated[str, typer.Option(help="Shipped configuration or YAML file; both models are loaded.")] = "mini",
    clips: Annotated[str | None, typer.Option(help="A recording, or a folder of them. [default: the samples]")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Times through all clips.")] = 5,
    k: Annotated[int, typer.Option("-k", min=1, help="Drafted tokens in a block.")] = 5,
) -> None:
    """Measure the loop with drafts that are right with given probabilities."""
    wanted = numbers(acceptance, most=1.0)
    captioner = Captioner.load(config, {"decoding.mode": "hybrid", "decoding.k": k})
    recordings = read_clips(captioner, files_of(clips))
    loops = [ForcedLoop(captioner.pair, recording, captioner.config) for recording in recordings]
    print_forced(list(force(loops, wanted, rounds)))


if __name__ == "__main__":
    typer.run(main)
