"""The loop with chosen tokens: `python -m tools.forced --acceptance 0.6,0.8,0.9`.

For models whose own choices say nothing, such as random weights, and for texts that others wrote. Every forward is
made, and its logits are raised at the token that is to be chosen, so that times are real and the text is given. The
cloud chooses the text, and the edge the same with a wrong token in its place with probability 1 - a (seeded), of which
it is unsure. So every verified token is accepted with probability a, independently of all others, as the formulas of
speculative decoding assume, and in hybrid mode an entropy gate escalates exactly the blocks with a wrong token.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import torch
import typer
from pydantic import Field
from transformers.cache_utils import Cache

from specdec_cli.captioner import Captioner
from specdec_cli.cloud.verify_client import VerifyClient
from specdec_cli.config.decoding_schema import GateConfig
from specdec_cli.config.schema import Config
from specdec_cli.decoding.loop import Loop
from specdec_cli.decoding.pair import Pair
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.stats import Figures, median
from specdec_cli.types import Interval
from tools.table import print_table, spread_text
from tools.timing import BenchClip, CaptionTiming, drive, files_of, learn, read_clips

ForcedMode = Literal["edge", "cloud", "lossless", "hybrid"]
LONGEST: Final = 48
"""Tokens of a text that is not given: made-up weights never end one by themselves."""
MODES: Final[tuple[ForcedMode, ...]] = ("cloud", "lossless", "hybrid")
_SURE: Final = 100.0  # by how much the chosen token's logit exceeds the others'
_UNSURE: Final = 0.01
_UNSURE_NATS: Final = 0.5  # entropy of a token that the edge is unsure of, at least; of a sure one it is 0


class Forced(Figures):
    """Speed of one mode at one acceptance."""

    name: str = Field(description="of what is compared, if anything is")
    acceptance: float = Field(description="probability that a drafted token is the target's own")
    mode: ForcedMode
    guesses: int = Field(description="tokens guessed from earlier texts, at most")
    caption_tokens_per_s: Interval = Field(description="everything included")
    tokens_per_s: Interval = Field(description="after audio encoding and prefill")
    all_tokens_per_s: float = Field(description="tokens of all texts over their time after audio encoding and prefill")
    tokens_per_step: float | None = Field(description="per forward of the writing or drafting model; null: elsewhere")
    measured_acceptance: float | None = Field(description="accepted / verified tokens; null: not lossless")


class ForcedLM(AudioLM):
    """A loaded model whose tokens are chosen for it, one clip at a time."""

    def __init__(self, model: AudioLM) -> None:
        vars(self).update(vars(model))  # it has been set up, and its encoder is watched
        self.choose((), 0)

    def choose(self, text: Sequence[int], prompt_tokens: int, unsure: Collection[int] = ()) -> None:
        """From here on `text` is written after a prompt of so many tokens; hardly so at the places `unsure`."""
        self._text, self._prompt_tokens, self._unsure = tuple(text), prompt_tokens, frozenset(unsure)

    def forward(
        self,
        ids: Sequence[int] | torch.Tensor,
        positions: torch.Tensor,
        cache: Cache,
        rows: int | torch.Tensor,
        audio: Mapping[str, torch.Tensor] | None = None,
        mask: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, float, int]:
        start = cache.get_seq_length() + len(ids) + 1 - self._prompt_tokens
        logits, encoder_ms, passes = super().forward(ids, positions, cache, rows, audio, mask)
        for at, row in enumerate(logits, start=start - len(logits)):
            if 0 <= at < len(self._text):
                row[self._text[at]] = row.max() + (_UNSURE if at in self._unsure else _SURE)
        return logits, encoder_ms, passes


@dataclass(frozen=True, slots=True, eq=False)
class ForcedLoop:
    """Loops over one pair and one clip whose tokens are chosen.

    Attributes:
        edge, cloud: the models; None: modes that need it are not taken.
        clip: the recording.
        config: of any mode; k, processors and the length are used. Nothing is drafted ahead.
        name: of what is compared.
        link: the cloud behind its address; None: it is called here.
    """

    edge: ForcedLM | None
    cloud: ForcedLM | None
    clip: BenchClip
    config: Config
    name: str = ""
    link: VerifyClient | None = None

    def pair(self) -> Pair:
        """The models, whose earlier texts are forgotten."""
        return Pair.of(self.edge, self.link or self.cloud)

    def target(self) -> tuple[int, ...]:
        """What the cloud writes alone, to the full length; the edge, where there is no cloud."""
        for model in (self.edge, self.cloud):
            if model is not None:
                model.choose((), 0)
        config = self._config("cloud" if self.cloud else "edge", LONGEST, 0, ended=False)
        return drive(self._loop(self.pair(), config)).ids

    def take(
        self, mode: ForcedMode, text: Sequence[int], acceptance: float, seed: int, pair: Pair, guesses: int = 0
    ) -> tuple[CaptionTiming, int | None]:
        """One run that writes `text`: its times, and the forwards of the writing or drafting model of this process."""
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.rand(len(text), generator=generator) >= (1.0 if mode == "edge" else acceptance)
        wrong = [at for at, is_wrong in enumerate(drawn.tolist()) if is_wrong]
        if self.edge is not None:
            spoiled = [(token + (at in wrong)) % pair.vocab_size for at, token in enumerate(text)]
            self.edge.choose(spoiled, len(self.clip.edge.ids), wrong)
        if self.cloud is not None:
            self.cloud.choose(text, len(self.clip.cloud.ids))
        config = self._config(mode, len(text), guesses, ended=True)
        loop = self._loop(pair, config)
        timing = drive(loop)
        learn(timing, pair, config)
        if timing.ids != tuple(text):
            raise RuntimeError(f"{mode} wrote {timing.ids} in place of {tuple(text)}")
        return timing, None if loop.drafter is None else loop.drafter.work.forwards - 1

    def _loop(self, pair: Pair, config: Config) -> Loop:
        return pair.loop(config, (self.clip.edge, lambda: self.clip.cloud))

    def _config(self, mode: ForcedMode, longest: int, guesses: int, *, ended: bool) -> Config:
        """The length limit alone ends a text; in hybrid mode, an entropy gate tells wrong tokens."""
        settings = self.config.decoding
        longest = longest if ended else min(settings.max_new_tokens, longest)
        changed: dict[str, object] = {
            "mode": mode,
            "k": 5 if settings.k == "whole" else settings.k,
            "guess_tokens": guesses,
        }
        changed |= {"max_new_tokens": longest, "min_new_tokens": 0 if ended else longest, "loop_period": 0}
        changed |= {"sentences": None, "stop_strings": (), "fallback": "off", "cloud_prefill": "lazy"}
        gate = GateConfig(name="entropy", threshold=_UNSURE_NATS) if mode == "hybrid" else GateConfig(threshold=1e9)
        sections = {"decoding": settings.model_copy(update=changed), "gate": gate}
        return self.config.model_copy(update=sections)


def force(
    loops: Sequence[ForcedLoop],
    acceptances: Sequence[float],
    texts: Sequence[Sequence[int]] | int,
    modes: Sequence[ForcedMode] = MODES,
    guesses: Sequence[int] = (0,),
) -> Iterator[Forced]:
    """Every acceptance in every mode, in turns; those of one name, together.

    Args:
        texts: written one after the other; a number: what the cloud writes alone, as often.
        guesses: tokens guessed at most, each with a memory of its own that knows nothing at first.
    """
    given = [[loop.target()] * texts if isinstance(texts, int) else texts for loop in loops]
    for acceptance in acceptances:
        taken: dict[tuple[str, ForcedMode, int], list[tuple[CaptionTiming, int | None]]] = {}
        pairs = {(at, mode, most): loop.pair() for at, loop in enumerate(loops) for mode in modes for most in guesses}
        for seed in range(len(given[0])):
            for (at, mode, most), pair in pairs.items():
                run = loops[at].take(mode, given[at][seed], acceptance, seed, pair, most)
                taken.setdefault((loops[at].name, mode, most), []).append(run)
        for (name, mode, most), runs in taken.items():
            yield _forced(name, acceptance, mode, most, runs)


def accepted(run: CaptionTiming) -> int:
    """Drafted tokens that the cloud accepted."""
    return sum(event.accepted for event in run.escalated)


def verified(run: CaptionTiming) -> int:
    """Drafted tokens that the cloud verified: after the first rejected one it verifies none (Leviathan et al. 2023)."""
    return sum(min(event.accepted + 1, len(event.draft_ids)) for event in run.escalated)


def _forced(
    name: str, acceptance: float, mode: ForcedMode, guesses: int, runs: Sequence[tuple[CaptionTiming, int | None]]
) -> Forced:
    timings, steps = zip(*runs, strict=True)
    tokens, judged = sum(len(run.ids) for run in timings), sum(map(verified, timings))
    after_prefill_ms = [run.wall_ms - run.work.reading_ms for run in timings]
    decoding_s = sum(after_prefill_ms) / 1e3
    return Forced(
        name=name,
        acceptance=acceptance,
        mode=mode,
        guesses=guesses,
        caption_tokens_per_s=median([run.tokens_per_s for run in timings]),
        tokens_per_s=median([1e3 * len(run.ids) / ms for run, ms in zip(timings, after_prefill_ms, strict=True)]),
        all_tokens_per_s=tokens / decoding_s,
        tokens_per_step=None if None in steps else tokens / max(sum(steps), 1),
        measured_acceptance=sum(map(accepted, timings)) / judged if mode == "lossless" and judged else None,
    )


def read_texts(path: str, most: int, barred: Collection[int], vocab_size: int) -> list[list[int]]:
    """Texts of a file, a line of token ids each; ids that a model bars trade places with the last of the vocabulary.

    Raises:
        typer.BadParameter: a line holds something else, or an id outside of the vocabulary.
    """
    spare = {id_: vocab_size - 1 - at for at, id_ in enumerate(sorted(barred))}
    swapped = spare | {new: old for old, new in spare.items()}
    with open(path, encoding="ascii") as lines:
        try:
            texts = [[int(id_) for id_ in line.split()] for line, _ in zip(lines, range(most), strict=False)]
        except ValueError as error:
            raise typer.BadParameter(f"{path} holds lines of token ids, separated by spaces: {error}") from None
    if not texts or not all(texts) or max(map(max, texts)) >= vocab_size:
        raise typer.BadParameter(f"{path} holds no text, an empty one, or ids from {vocab_size} on")
    return [[swapped.get(id_, id_) for id_ in text] for text in texts]


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
    """Prints a row for each name, mode, acceptance and number of guesses."""
    rows, without = [], dict[tuple[str, ForcedMode, float], float]()
    for forced in found:
        rate = forced.all_tokens_per_s
        first = without.setdefault((forced.name, forced.mode, forced.acceptance), rate)
        shares = (forced.measured_acceptance, forced.tokens_per_step)
        accepted, per_step = ("-" if share is None else f"{share:.2f}" for share in shares)
        places = [forced.name, forced.mode, f"{forced.acceptance:g}", f"{forced.guesses}", accepted]
        speeds = [spread_text(forced.caption_tokens_per_s), spread_text(forced.tokens_per_s)]
        rows.append([*places, *speeds, f"{rate:.2f}", f"{rate / first:.2f}", per_step])
    columns = ["", "mode", "a", "guesses", "accepted", "tokens/s", "after prefills", "all texts", "ratio", "per step"]
    print_table("Chosen tokens: medians of captions, and all texts after their prefills", columns, rows)


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
    edge, cloud = map(ForcedLM, captioner.pair.loaded)
    recordings = read_clips(captioner, files_of(clips))
    loops = [ForcedLoop(edge, cloud, recording, captioner.config) for recording in recordings]
    print_forced(list(force(loops, wanted, rounds)))


if __name__ == "__main__":
    typer.run(main)
