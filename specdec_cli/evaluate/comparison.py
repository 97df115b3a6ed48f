"""From transcripts to a comparison. Nothing else is read, so that a resumed run has the same result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from specdec_cli.evaluate.calibration import advice
from specdec_cli.evaluate.costs import costs, measurements
from specdec_cli.evaluate.headline import headline
from specdec_cli.evaluate.modes import MODES, richest
from specdec_cli.evaluate.pairing import PairedClip, pair
from specdec_cli.evaluate.quality import by_group, gaps, quality, scores
from specdec_cli.evaluate.result import ONE_SPEAKER, ClipComparison, Comparison
from specdec_cli.evaluate.text_scores import describe, in_another_language
from specdec_cli.labels import Lexicon
from specdec_cli.labels.references import Reference, References, counted
from specdec_cli.prompts import Language
from specdec_cli.stats import LEVEL, Resampler
from specdec_cli.transcript.records import Models, Transcript
from specdec_cli.types import Mode

SAID: Final = (
    "The references' texts are what was said, not descriptions of how, so BLEU, chrF and ROUGE-L are left out "
    "(--column text=NAME names another)."
)

UNTOLD: Final = "The references name no class and describe no voice: captions are compared with the cloud's alone."


def comparison(
    transcripts: Sequence[Transcript],
    lexicon: Lexicon,
    *,
    modes: Sequence[Mode] | None = None,
    references: References | None = None,
    by: str | None = None,
    seed: int = 0,
) -> Comparison:
    """Compares modes by their transcripts.

    Args:
        transcripts: at least one, of one language and prompt, in the order in which clips are to be listed.
        modes: None: those that occur.
        by: the column that groups of references are from; None: there are no groups.
        seed: of the bootstrap.

    Raises:
        ReferencesError: the references have a row about none of the clips.
    """
    occurring, first = {transcript.mode for transcript in transcripts}, transcripts[0]
    language = first.language
    modes = [mode for mode in MODES if mode in (modes or occurring)]
    paired, failures, unfinished = pair(transcripts, modes)
    about = [next(iter(clip.values())) for clip in paired]  # file, length and place are the same in all modes
    answers = [references.of(run) if references else None for run in about]
    if references is not None:
        references.require_found(answers)
    clips = [_clip(clip, answer, lexicon, language) for clip, answer in zip(paired, answers, strict=True)]
    speakers = [answer.speaker if answer else None for answer in answers]
    table, resampler = measurements(paired, modes), Resampler(len(clips), seed=seed, speakers=speakers)
    texts = [text for clip in clips for text in clip.reference_texts]
    described = describe(texts, lexicon, language)
    scored = scores(clips, list(table), lexicon, described=described)
    groups = [answer.group if answer else None for answer in answers] if by else []
    found = Comparison(
        headline=[],
        modes=modes,
        language=language,
        prompt=first.prompt,
        models=Models(
            edge=next((run.models.edge for run in transcripts if run.models.edge), None),
            cloud=next((run.models.cloud for run in transcripts if run.models.cloud), None),
        ),
        settings=next(run.settings for run in transcripts if run.mode == richest(occurring)),
        clips=clips,
        unfinished=unfinished,
        audio_s=round(sum(clip.duration_s or 0.0 for clip in clips), 4),
        errors=failures,
        costs=[costs(mode, table, resampler) for mode in table],
        quality=[quality(clips, mode, scored, language, lexicon, resampler) for mode in table],
        gaps=gaps(scored, table, resampler),
        by=by,
        groups=by_group(clips, groups, list(table), lexicon, speakers, seed),
        attributes=list(lexicon.attributes),
        measured_attributes=list(lexicon.measured),
        reference_columns=dict(references.columns) if references else None,
        texts=None if not texts else "descriptions" if described else "said",
        notes=[
            *counted(filter(None, answers)),
            *in_another_language(answers, language),
            *_drawn(speakers),
            *advice((clip[richest(modes)], answer) for clip, answer in zip(paired, answers, strict=True)),
            *([SAID] if texts and not described else []),
            *([UNTOLD] if references and not any(basis == "references" for basis, _ in scored) else []),
        ],
        references_found=sum(clip.reference is not None for clip in clips) if references else None,
        level=LEVEL,
        speakers=len({speaker for speaker in speakers if speaker is not None}) or None,
    )
    return found.model_copy(update={"headline": [*headline(found, paired)]})


def _clip(runs: PairedClip, reference: Reference | None, lexicon: Lexicon, language: Language) -> ClipComparison:
    about = next(iter(runs.values()))
    return ClipComparison(
        file=about.file,
        sha256=about.sha256 or "",
        duration_s=about.duration_s,
        start_s=about.start_s,
        end_s=about.end_s,
        channel=about.channel,
        captions={mode: run.caption or "" for mode, run in runs.items()},
        flags={mode: run.flags for mode, run in runs.items() if run.flags},
        labels={mode: lexicon.labels(run.caption or "", language) for mode, run in runs.items()},
        total_ms={mode: run.timing.total_ms for mode, run in runs.items()},
        escalation_rate={mode: getattr(run.totals, "escalation_rate", None) for mode, run in runs.items()},
        reference=reference.key if reference else None,
        reference_texts=list(reference.texts_in(language)) if reference else [],
        reference_labels=dict(reference.labels) if reference else {},
    )


def _drawn(speakers: Sequence[str | None]) -> Iterator[str]:
    """A caution about intervals if references name the speakers of some clips only, or a single speaker."""
    unnamed = speakers.count(None)
    if len(speakers) > 1 and not unnamed and len({*speakers}) == 1:
        yield ONE_SPEAKER
    elif 0 < unnamed < len(speakers):
        yield (
            f"{unnamed} of {len(speakers)} clips name no speaker. Each is drawn as if it had a speaker of its own, "
            "so intervals may be too narrow."
        )
