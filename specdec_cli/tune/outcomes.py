"""The outcomes of settings: quality of the captions, 0 to 1, and costs; and the result of a tuning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Final, Literal

import numpy as np
from pydantic import Field

from specdec_cli.errors import ConfigError
from specdec_cli.evaluate.costs import cloud_ms, spent_shares
from specdec_cli.evaluate.gap import AtCost, GapClosed, Spent, measure_gap
from specdec_cli.evaluate.quality import heard_and_measured, label_hits
from specdec_cli.evaluate.text_scores import clip_chrf, describe
from specdec_cli.labels import Lexicon
from specdec_cli.labels.references import Reference
from specdec_cli.prompts import Language
from specdec_cli.stats import Figures, Resampler, Values, mean
from specdec_cli.transcript.records import Transcript
from specdec_cli.tune.recording import Trace
from specdec_cli.tune.replay import Candidate
from specdec_cli.types import COSTS, Cost, Interval

Measure = Literal["labels", "texts", "agreement"]

PREFILL: Final = 10.0
"""Forwards of one token that take the cloud as long as audio encoder and prefill, by which replays are timed."""


class CaptionQuality:
    """Measures texts of recorded clips: the classes that references name, else chrF with their texts.

    Of classes the heard attributes are judged (voice, emotion): the cloud adds nothing to what is measured. If the
    references name none of these, the measured ones are judged.

    `references`: SHA-256 of a clip -> its reference. Without references the cloud's caption is the reference text.

    Attributes:
        measure: what is judged.
        judged, left_out: the attributes of the references whose classes are judged, and those that are not.
        classes: token ids -> the class that they name of every attribute; None: none.
    """

    def __init__(
        self,
        lexicon: Lexicon,
        references: Mapping[str, Reference],
        language: Language,
        decode: Callable[[Sequence[int]], str],
    ) -> None:
        known = references.values()
        written = [text for each in known for text in each.texts_in(language)]
        texts: Measure = "texts" if describe(written, lexicon, language) else "agreement"
        self.measure: Measure = "labels" if any(each.labels for each in known) else texts
        self._references = references
        heard, _ = heard_and_measured(lexicon)
        labelled = np.array([any(name in each.labels for each in known) for name in lexicon.attributes])
        judged = labelled & heard if (labelled & heard).any() else labelled
        self.judged, self.left_out = (
            [name for name, counts in zip(lexicon.attributes, each, strict=True) if counts and self.measure == "labels"]
            for each in (judged, labelled & ~judged)
        )

        @cache
        def classes(ids: tuple[int, ...]) -> Mapping[str, str | None]:
            return lexicon.labels(decode(ids), language)

        @cache  # most settings give a clip one of a few texts
        def figures(sha256: str, ids: tuple[int, ...], cloud_caption: str) -> Values:
            reference = references.get(sha256)
            if self.measure == "labels":
                hits = label_hits([classes(ids)], [reference.labels if reference else {}], lexicon)[0]
                return np.where(judged, hits, np.nan)
            texts = reference.texts_in(language) if reference else ()
            return clip_chrf([decode(ids)], [[cloud_caption] if self.measure == "agreement" else texts]) / 100

        self.classes, self._figures = classes, figures

    def require_references(self) -> None:
        """Raises ConfigError if the references match no clip, or have neither classes nor descriptions."""
        if not self._references:
            hint = "Look at the column that names the files (--column file=NAME), or leave the references out."
            raise ConfigError("No reference is of any of the recordings.", hint=hint)
        if self.measure == "agreement":
            says = "The references name no class of the lexicon, and no text of theirs describes how somebody speaks."
            raise ConfigError(says, hint="Leave them out to tune by agreement with the cloud's captions.")

    def notes(self) -> list[str]:
        """Which attributes are not judged, in a sentence."""
        names = ", ".join(self.left_out)
        return [f"not judged: {names}. The sound decides these without the cloud"] if names else []

    def speakers(self, traces: Sequence[Trace]) -> list[str | None]:
        """The speaker of each clip; None where the references name none."""
        found = (self._references.get(trace.sha256) for trace in traces)
        return [reference.speaker if reference else None for reference in found]

    def table(self, traces: Sequence[Trace], texts: Iterable[tuple[int, ...]]) -> Values:
        """Figures of one text of each clip [clips, attributes], one column for texts; NaN without a reference."""
        pairs = zip(traces, texts, strict=True)
        return np.stack([self._figures(trace.sha256, ids, trace.cloud_caption) for trace, ids in pairs])


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedPoint(Candidate):
    """A setting that was run on clips that nothing was fitted on."""

    spent: Mapping[Cost, float | None]  # share of each cost, 0 to 1; None where it was not measured
    gain: Interval  # quality - that of the edge alone, paired by clip
    gap_closed: Interval | None  # share of the distance from edge to cloud; None: the two do not differ measurably
    at_costs: list[AtCost]
    quality: float  # mean of the figure that the gap is taken in, 0 to 1
    escalations_per_clip: float  # unlike a rate, it does not depend on the size of blocks


class Tuning(Figures):
    """Gates against each other on one set of clips. Shares are between 0 and 1."""

    measure: Measure = Field(description="classes of references, chrF with their texts or (agreement) the cloud's")
    clips: int = Field(description="clips that were recorded")
    references_found: int | None = Field(description="of them, those with a reference; null: none were given")
    chosen_on: int = Field(description="clips that thresholds were chosen on")
    confirmed_on: int = Field(description="other clips, on which settings were run")
    split_by: str = Field(description="what keeps the two apart: speaker or clip")
    cost: Cost = Field(description="what the budget is of: share of blocks, of clips, or of cloud-only's time")
    budget: float = Field(description="largest share of it that was to be recommended")
    edge_quality: float = Field(description="mean quality of the edge alone, on the clips of the runs")
    cloud_quality: float = Field(description="mean quality of the cloud alone, on the same clips")
    gap: Interval = Field(description="their difference")
    confirmed: tuple[TunedPoint, ...] = Field(description="the settings that were run")
    recommended: TunedPoint | None = Field(description="the setting to take; null: none, for the reason below")
    reason: str | None = Field(description="why nothing is recommended; null: a setting is")
    clips_needed: int | None = Field(description="recordings that would roughly decide it; null: a setting is, or none")
    attributes: list[str] = Field(
        description="those whose classes count, of measure labels: heard ones (voice, emotion), or if the references "
        "name none of them, measured ones; of other measures none"
    )
    reference_columns: dict[str, str] | None = Field(default=None, description="attribute, or text -> its column")
    notes: list[str] = Field(description="what was left out, and how to have it")
    output: str | None = Field(default=None, description="configuration that was written")

    @property
    def of(self) -> str:
        """The unit of quality, in few words."""
        if self.measure != "labels":
            return "chrF" if self.measure == "texts" else "chrF with the cloud's"
        return self.attributes[0] if len(self.attributes) == 1 else f"mean of {len(self.attributes)} attributes"


@dataclass(frozen=True, slots=True)
class Baselines:
    """Quality of the edge alone and of the cloud alone on the same n clips [n, attributes], and their resampler."""

    edge: Values
    cloud: Values
    resampler: Resampler

    @classmethod
    def of(cls, traces: Sequence[Trace], quality: CaptionQuality, seed: int) -> Baselines:
        """The baselines of recorded clips; ConfigError if no reference covers them."""
        edge, cloud = (quality.table(traces, [getattr(t, side).ids for t in traces]) for side in ("edge", "cloud"))
        if not np.isfinite(edge).any():
            hint = "Look at the column that names the files (--column file=NAME), or leave the references out."
            raise ConfigError("No reference covers the clips that settings are confirmed on.", hint=hint)
        speakers = quality.speakers(traces)
        return cls(edge, cloud, Resampler(len(traces), seed=seed, speakers=speakers))

    def gap(self, quality: Values, spent: Spent | None = None) -> GapClosed:
        """What captions of a quality [n, attributes] gain over the edge's."""
        found = measure_gap(self.edge, quality, self.cloud, self.resampler, spent)
        assert found is not None  # a reference covers the same clips of all three
        return found


@dataclass(frozen=True, slots=True)
class SettingOutcome:
    """The outcome of a setting on each of n clips, by replays or by real runs."""

    candidate: Candidate
    quality: Values  # figures per clip [n, attributes], NaN where no reference has any
    escalations: Values  # blocks that were escalated [n]
    spent: Spent  # the share of each cost

    @classmethod
    def of(
        cls,
        candidate: Candidate,
        traces: Sequence[Trace],
        quality: CaptionQuality,
        texts: Sequence[tuple[int, ...]],
        escalations: Values,
        spent: Spent,
    ) -> SettingOutcome:
        """The outcome of a candidate by its text of each clip; a deferred draft is not a block."""
        shares = {cost: share for cost, share in spent.items() if cost != "blocks" or not candidate.deferred}
        return cls(candidate, quality.table(traces, texts), escalations, shares)

    def share(self, cost: Cost) -> float:
        """Share of a cost; NaN where it is not known."""
        share = self.spent.get(cost)
        return float("nan") if share is None else float(share(np.ones(len(self.quality))))

    @property
    def mean(self) -> float:
        """Mean quality: over attributes, of the mean over the clips that a reference covers."""
        return float(mean(self.quality)(np.ones(len(self.quality))))

    def point(self, alone: Baselines) -> TunedPoint:
        """The setting as a result reports it."""
        found, shares = alone.gap(self.quality, self.spent), {cost: self.share(cost) for cost in COSTS}
        return TunedPoint(
            **asdict(self.candidate),
            spent={cost: share if np.isfinite(share) else None for cost, share in shares.items()},
            gain=found.gain,
            gap_closed=found.closed,
            at_costs=found.at_costs,
            quality=self.mean,
            escalations_per_clip=float(self.escalations.mean()),
        )


def swept(candidate: Candidate, traces: Sequence[Trace], quality: CaptionQuality, seed: int) -> SettingOutcome:
    """A candidate replayed on every clip. Time is in forwards of one token; a clip's first call takes `PREFILL`."""
    found = [candidate.replay(trace, seed) for trace in traces]
    rows = [(each.rounds, each.escalations, len(t.cloud.ids)) for each, t in zip(found, traces, strict=True)]
    rounds, calls, alone = np.array(rows, dtype=np.float64).T
    time = np.where(calls > 0, PREFILL + calls - 1, 0.0)
    spent = spent_shares(calls, rounds, np.sign(calls), time, PREFILL + alone - 1)
    return SettingOutcome.of(candidate, traces, quality, [each.ids for each in found], calls, spent)


def confirmed(
    candidate: Candidate,
    traces: Sequence[Trace],
    quality: CaptionQuality,
    runs: Sequence[Transcript],
    alone: Sequence[Transcript],
) -> SettingOutcome:
    """The outcome of a candidate by its runs, compared with those of cloud-only."""
    texts = [tuple(id_ for round_ in run.rounds for id_ in round_.committed_ids) for run in runs]
    rows = [
        (len(run.rounds), sum(each.escalated for each in run.rounds), run.woken, cloud_ms(run), cloud_ms(cloud))
        for run, cloud in zip(runs, alone, strict=True)
    ]
    rounds, calls, woken, time, alone_ms = np.array(rows, dtype=np.float64).T
    spent = spent_shares(calls, rounds, woken, time, alone_ms)
    return SettingOutcome.of(candidate, traces, quality, texts, calls, spent)
