"""From transcripts to a comparison: nothing in it comes from elsewhere, so a run that was resumed finds the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from specdec_cli.evaluate.bootstrap import Resampler
from specdec_cli.evaluate.costs import costs, measurements, process
from specdec_cli.evaluate.modes import MODES, richest
from specdec_cli.evaluate.pairing import PairedClip, pair
from specdec_cli.evaluate.quality import gaps, quality
from specdec_cli.evaluate.result import ClipComparison, Comparison, Gap
from specdec_cli.format import count, percent, share, with_ends
from specdec_cli.prompts import Language
from specdec_cli.transcript.records import Models, Transcript
from specdec_cli.types import Mode

if TYPE_CHECKING:
    from specdec_cli.labels import Lexicon
    from specdec_cli.labels.references import References

FEWEST_CLIPS: Final = 10
"""Below this a percentile bootstrap is too narrow to base a claim on."""


def comparison(
    transcripts: Sequence[Transcript],
    lexicon: Lexicon,
    *,
    modes: Sequence[Mode] | None = None,
    references: References | None = None,
    planned: int | None = None,
    bertscore: bool = False,
    seed: int = 0,
) -> Comparison:
    """Compares modes by their transcripts.

    Args:
        transcripts: at least one, of one language and prompt, in the order in which clips are to be listed; several of
            a clip and mode are repeats.
        modes: those to compare; None: those that occur.
        planned: how many recordings were to be compared, for a run that was interrupted.
        seed: of the bootstrap.

    Raises:
        ConfigError: BERTScore cannot be had.
    """
    wanted = set(modes) if modes else {transcript.mode for transcript in transcripts}
    modes = [mode for mode in MODES if mode in wanted]
    language, most = transcripts[0].language, richest({run.mode for run in transcripts})
    pairing = pair(transcripts, modes)
    paired = pairing.clips
    clips = [_clip(clip, references, lexicon, language) for clip in paired]
    resampler = Resampler(len(clips), seed=seed)
    table = measurements(paired, modes)
    found = gaps(clips, lexicon, table, resampler) if clips else []
    runs = [run for clip in paired for runs in clip.runs.values() for run in runs]
    unstable = [clip.about.file for clip in paired if clip.unstable]
    return Comparison(
        headline=_headline(paired, unstable, clips, found),
        modes=modes,
        language=language,
        prompt=transcripts[0].prompt,
        models=Models(
            edge=next((run.models.edge for run in transcripts if run.models.edge), None),
            cloud=next((run.models.cloud for run in transcripts if run.models.cloud), None),
        ),
        settings=next(run.settings for run in transcripts if run.mode == most),
        clips=clips,
        planned=planned,
        unfinished=pairing.unfinished,
        audio_s=round(sum(clip.duration_s or 0.0 for clip in clips), 4),
        repeats=max((len(runs) for clip in paired for runs in clip.runs.values()), default=0),
        unstable=unstable,
        errors=pairing.failures,
        costs=costs(table, resampler) if clips else [],
        process=process(runs),
        quality=quality(clips, language, lexicon, resampler, bertscore=bertscore) if clips else [],
        gaps=found,
        attributes=list(lexicon.attributes),
        reference_columns=None if references is None else dict(references.columns),
        references_found=None if references is None else sum(clip.reference is not None for clip in clips),
        resamples=resampler.resamples,
        level=resampler.level,
        seed=seed,
    )


def _clip(clip: PairedClip, references: References | None, lexicon: Lexicon, language: Language) -> ClipComparison:
    about = clip.about
    reference = references.find(about.file, about.start_s, about.end_s) if references else None
    captions = {mode: clip.first(mode).caption or "" for mode in clip.runs}
    return ClipComparison(
        file=about.file,
        sha256=about.sha256 or "",
        duration_s=about.duration_s,
        start_s=about.start_s,
        end_s=about.end_s,
        captions=captions,
        flags={mode: flags for mode in clip.runs if (flags := clip.first(mode).flags)},
        labels={mode: lexicon.labels(caption, language) for mode, caption in captions.items()},
        emotions={mode: list(lexicon.emotions(caption, language)) for mode, caption in captions.items()},
        total_ms={mode: round(clip.middle(mode, lambda run: run.timing.total_ms), 4) for mode in clip.runs},
        escalation_rate={mode: getattr(clip.first(mode).totals, "escalation_rate", None) for mode in clip.runs},
        reference=reference.key if reference else None,
        reference_texts=list(reference.texts) if reference else [],
        reference_labels=dict(reference.labels) if reference else {},
    )


def _headline(
    paired: Sequence[PairedClip], unstable: Sequence[str], clips: Sequence[ClipComparison], gaps: Sequence[Gap]
) -> list[str]:
    """The sentences: faults first, then how much of the gap each mode closes by the measure that leads.

    A mode whose captions all equal the cloud's is left out.
    """
    if not clips:
        return ["No clip was captioned by every mode, so there is nothing to compare."]
    faults = list(_faults(paired, unstable))
    if len(clips) < FEWEST_CLIPS:
        few = f"{count(len(clips), 'clip')} only: at least {FEWEST_CLIPS} are needed to say which mode is better."
        return [*faults, few]
    leading: dict[Mode, Gap] = {}
    for gap in gaps:  # of the measures, the first that has a gap to close
        known = leading.setdefault(gap.mode, gap)
        if known.closed is None and gap.closed is not None and gap.basis == known.basis:
            leading[gap.mode] = gap
    differing = [m for m in leading if any(clip.captions[m] != clip.captions["cloud"] for clip in clips)]
    return [*faults, *(_closed(leading[mode]) for mode in differing)]


def _faults(clips: Sequence[PairedClip], unstable: Sequence[str]) -> Iterator[str]:
    """What must not happen."""
    if unstable:
        more = f" ({len(unstable)} such clips)" if len(unstable) > 1 else ""
        yield (
            f"Fault: the greedy caption of {unstable[0]} differs between repeats{more}. "
            "Figures of quality are those of the first."
        )
    if {"lossless", "cloud"} <= clips[0].runs.keys():
        greedy = [clip for clip in clips if clip.first("lossless").settings.get("acceptance") == "greedy"]
        other = [clip for clip in greedy if clip.first("lossless").caption != clip.first("cloud").caption]
        if other:
            yield (
                f"Lossless differs from cloud-only in {len(other)} of {len(greedy)} captions; "
                "in 16-bit formats a near tie may fall the other way, in float32 it is a fault."
            )


def _closed(gap: Gap) -> str:
    """How much of the gap a mode closes; no difference is reported whose interval includes 0."""
    ends = f"edge-only {share(gap.edge)}, {gap.mode} {share(gap.value)}, cloud-only {share(gap.cloud)}"
    if gap.closed is None:
        verdict = "Cloud-only is not measurably better than edge-only here, so there is no gap to close."
    elif gap.closed.low is not None and gap.closed.low > 0:
        verdict = f"{gap.mode.capitalize()} closes {with_ends(gap.closed, percent)} of the gap."
    elif gap.gain.high is not None and gap.gain.high < 0:
        verdict = f"{gap.mode.capitalize()} is worse than edge-only."
    else:
        verdict = f"No difference between {gap.mode} and edge-only can be reported from these clips."
    return f"{gap.subject}: {ends}. {verdict}"
