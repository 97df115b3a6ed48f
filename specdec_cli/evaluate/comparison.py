"""From transcripts to a comparison: nothing in it comes from elsewhere, so a run that was resumed finds the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from specdec_cli.evaluate.bootstrap import LEVEL, Resampler
from specdec_cli.evaluate.bought import sentences
from specdec_cli.evaluate.costs import costs, measurements
from specdec_cli.evaluate.modes import MODES, richest
from specdec_cli.evaluate.pairing import PairedClip, middle_of, pair
from specdec_cli.evaluate.quality import gaps, quality, scores
from specdec_cli.evaluate.result import ClipComparison, Comparison, Gap
from specdec_cli.evaluate.text_scores import describe, in_another_language
from specdec_cli.format import count, percent, share, with_ends
from specdec_cli.prompts import Language
from specdec_cli.transcript.records import Models, Transcript
from specdec_cli.types import Mode

if TYPE_CHECKING:
    from specdec_cli.evaluate.wheels import Wheels
    from specdec_cli.labels import Lexicon
    from specdec_cli.labels.references import Reference, References

SAID: Final = (
    "The references' texts are what was said, not descriptions of how, so BLEU, chrF and ROUGE-L are left out "
    "(--column text=NAME names another)."
)
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
    wheels: Wheels | None = None,
    seed: int = 0,
) -> Comparison:
    """Compares modes by their transcripts.

    Args:
        transcripts: at least one, of one language and prompt, in the order in which clips are to be listed; several of
            a clip and mode are repeats.
        modes: None: those that occur.
        planned: how many recordings were to be compared, for a run that was interrupted.
        seed: of the bootstrap.

    Raises:
        ConfigError: BERTScore cannot be had.
    """
    occurring, first = {transcript.mode for transcript in transcripts}, transcripts[0]
    modes = [mode for mode in MODES if mode in (modes or occurring)]
    paired, failures, unfinished = pair(transcripts, modes)
    about = [next(iter(clip.values()))[0] for clip in paired]  # file, length and place are the same in all modes
    answers = [references.of(run) if references else None for run in about]
    clips = [_clip(clip, answer, lexicon, first.language) for clip, answer in zip(paired, answers, strict=True)]
    table, resampler = measurements(paired, modes), Resampler(len(clips), seed=seed)
    texts = [text for clip in clips for text in clip.reference_texts]
    described = describe(texts, lexicon, first.language)
    by = scores(clips, list(table), lexicon, described=described)
    found = gaps(by, table, resampler)
    unstable = [clip.file for clip, runs in zip(clips, paired, strict=True) if any(map(_unstable, runs.values()))]
    made = Comparison(
        headline=[],
        modes=modes,
        language=first.language,
        prompt=first.prompt,
        models=Models(
            edge=next((run.models.edge for run in transcripts if run.models.edge), None),
            cloud=next((run.models.cloud for run in transcripts if run.models.cloud), None),
        ),
        settings=next(run.settings for run in transcripts if run.mode == richest(occurring)),
        clips=clips,
        planned=planned,
        unfinished=unfinished,
        audio_s=round(sum(clip.duration_s or 0.0 for clip in clips), 4),
        repeats=max((len(runs) for clip in paired for runs in clip.values()), default=0),
        unstable=unstable,
        errors=failures,
        costs=[costs(mode, table, resampler) for mode in table],
        quality=[
            quality(clips, mode, by, first.language, lexicon, resampler, bertscore=bertscore, wheels=wheels)
            for mode in table
        ],
        gaps=found,
        attributes=list(lexicon.attributes),
        reference_columns=dict(references.columns) if references else None,
        texts=None if not texts else "descriptions" if described else "said",
        notes=[*in_another_language(answers, first.language), *([SAID] if texts and not described else [])],
        references_found=sum(clip.reference is not None for clip in clips) if references else None,
        level=LEVEL,
    )
    bought = sentences(made) if len(clips) >= FEWEST_CLIPS else ()
    headline = [*_faults(paired, unstable), *bought, *_verdicts(clips, found)]
    return made.model_copy(update={"headline": headline})


def _clip(clip: PairedClip, reference: Reference | None, lexicon: Lexicon, language: Language) -> ClipComparison:
    first = {mode: runs[0] for mode, runs in clip.items()}
    about = next(iter(first.values()))
    return ClipComparison(
        file=about.file,
        sha256=about.sha256 or "",
        duration_s=about.duration_s,
        start_s=about.start_s,
        end_s=about.end_s,
        channel=about.channel,
        captions={mode: run.caption or "" for mode, run in first.items()},
        flags={mode: run.flags for mode, run in first.items() if run.flags},
        labels={mode: lexicon.labels(run.caption or "", language) for mode, run in first.items()},
        total_ms={mode: round(middle_of(run.timing.total_ms for run in runs), 4) for mode, runs in clip.items()},
        escalation_rate={mode: getattr(run.totals, "escalation_rate", None) for mode, run in first.items()},
        reference=reference.key if reference else None,
        reference_texts=list(reference.texts_in(language)) if reference else [],
        reference_labels=dict(reference.labels) if reference else {},
    )


def _unstable(repeats: Sequence[Transcript]) -> bool:
    """Whether the caption is not the same in every repeat though nothing was drawn at random."""
    return not repeats[0].settings.get("temperature") and len({run.caption for run in repeats}) > 1


def _faults(clips: Sequence[PairedClip], unstable: Sequence[str]) -> Iterator[str]:
    """Sentences about what must not happen."""
    if unstable:
        yield (
            f"Fault: greedy captions of {count(len(unstable), 'clip')} differ between repeats, e.g. of {unstable[0]}. "
            "Figures of quality are those of the first."
        )
    both = [clip for clip in clips if {"lossless", "cloud"} <= clip.keys()]
    greedy = [clip for clip in both if clip["lossless"][0].settings.get("acceptance") == "greedy"]
    if other := sum(clip["lossless"][0].caption != clip["cloud"][0].caption for clip in greedy):
        yield (
            f"Lossless differs from cloud-only in {other} of {len(greedy)} captions; "
            "in 16-bit formats a near tie may fall the other way, in float32 it is a fault."
        )


def _verdicts(clips: Sequence[ClipComparison], gaps: Sequence[Gap]) -> Iterator[str]:
    """How much of the gap each mode closes, by the first measure that has one; not of captions that are the cloud's."""
    if not clips:
        yield "No clip was captioned by every mode, so there is nothing to compare."
    elif len(clips) < FEWEST_CLIPS:
        yield f"{count(len(clips), 'clip')} only: at least {FEWEST_CLIPS} are needed to say which mode is better."
    else:
        for mode in dict.fromkeys(gap.mode for gap in gaps):
            if any(clip.captions[mode] != clip.captions["cloud"] for clip in clips):
                own = [gap for gap in gaps if (gap.mode, gap.basis) == (mode, gaps[0].basis)]
                yield _closed(next((gap for gap in own if gap.closed), own[0]))


def _closed(gap: Gap) -> str:
    """How much of the gap a mode closes; no difference is reported whose interval includes 0."""
    ends = f"edge-only {share(gap.edge)}, {gap.mode} {share(gap.value)}, cloud-only {share(gap.cloud)}"
    if gap.closed is None:
        verdict = "Cloud-only is not measurably better than edge-only here, so there is no gap to close."
    elif gap.closed.low is not None and gap.closed.low > 0:
        verdict = f"{gap.mode.capitalize()} closes {with_ends(gap.closed, percent)} of the gap in {gap.of}."
    elif gap.gain.high is not None and gap.gain.high < 0:
        verdict = f"{gap.mode.capitalize()} is worse than edge-only."
    else:
        verdict = f"No difference between {gap.mode} and edge-only can be reported from these clips."
    return f"{gap.subject}: {ends}. {verdict}"
