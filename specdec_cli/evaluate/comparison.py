"""From transcripts to a comparison: nothing in it comes from elsewhere, so a run that was resumed finds the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from specdec_cli.errors import ConfigError
from specdec_cli.evaluate.bootstrap import Resampler
from specdec_cli.evaluate.costs import costs, measurements, process
from specdec_cli.evaluate.findings import headline
from specdec_cli.evaluate.pairing import MODES, pair
from specdec_cli.evaluate.quality import Judged, gaps, quality
from specdec_cli.evaluate.result import ClipComparison, Comparison
from specdec_cli.transcript.records import Models, Transcript
from specdec_cli.types import Mode

if TYPE_CHECKING:
    from specdec_cli.labels import Lexicon
    from specdec_cli.labels.references import References

_RICHEST: Final[tuple[Mode, ...]] = ("hybrid", "lossless", "cloud", "edge")
"""Modes, that which uses most settings first."""


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
    """Compares modes by what they wrote.

    Args:
        transcripts: of all modes, in the order in which clips are to be listed; several of a clip and mode are repeats.
        modes: those to compare; None: those that occur.
        planned: how many recordings were to be compared, for a run that was interrupted.
        seed: of the bootstrap.

    Raises:
        ConfigError: no transcripts, or they differ in language or prompt; or BERTScore cannot be had.
    """
    _require_one_task(transcripts)
    wanted = set(modes) if modes else {transcript.mode for transcript in transcripts}
    pairing = pair(transcripts, [mode for mode in MODES if mode in wanted])
    found_references = tuple(
        references.find(clip.about.file, clip.about.start_s, clip.about.end_s) if references else None
        for clip in pairing.clips
    )
    judged = Judged(pairing, transcripts[0].language, lexicon, found_references)
    resampler = Resampler(len(pairing.clips), seed=seed)
    any_clips = bool(pairing.clips)
    table = measurements(pairing)
    figures = costs(table, resampler) if any_clips else []
    found, oracles = gaps(judged, table, resampler) if any_clips else ([], [])
    runs = [run for clip in pairing.clips for runs in clip.runs.values() for run in runs]
    return Comparison(
        headline=headline(pairing, found),
        modes=list(pairing.modes),
        language=transcripts[0].language,
        prompt=transcripts[0].prompt,
        models=Models(
            edge=next((run.models.edge for run in transcripts if run.models.edge), None),
            cloud=next((run.models.cloud for run in transcripts if run.models.cloud), None),
        ),
        settings=min(transcripts, key=lambda run: _RICHEST.index(run.mode)).settings,
        clips=[_clip(judged, index) for index in range(len(pairing.clips))],
        planned=planned,
        unfinished=pairing.unfinished,
        audio_s=round(sum(clip.about.duration_s or 0.0 for clip in pairing.clips), 4),
        repeats=max((len(runs) for clip in pairing.clips for runs in clip.runs.values()), default=0),
        unstable=pairing.unstable,
        errors=list(pairing.failures),
        costs=figures,
        process=process(runs),
        quality=quality(judged, resampler, bertscore=bertscore) if any_clips else [],
        gaps=found,
        oracles=oracles,
        attributes=list(lexicon.attributes),
        reference_columns=None if references is None else references.columns.named,
        references_found=None if references is None else sum(reference is not None for reference in found_references),
        resamples=resampler.resamples,
        level=resampler.level,
        seed=seed,
    )


def by_mode(transcripts: Sequence[Transcript], modes: Sequence[Mode]) -> dict[Mode, list[Transcript]]:
    """Mode -> the transcript of every compared clip, in the order of `Comparison.clips`; of repeats the first."""
    pairing = pair(transcripts, modes)
    return {mode: [clip.first(mode) for clip in pairing.clips] for mode in pairing.modes}


def _require_one_task(transcripts: Sequence[Transcript]) -> None:
    if not transcripts:
        raise ConfigError("There is no transcript to compare.")
    for what in ("language", "prompt"):
        found = list(dict.fromkeys(getattr(transcript, what) for transcript in transcripts))
        if len(found) > 1:
            raise ConfigError(
                f"Transcripts of one {what} are compared, and these have {len(found)}: {found[0]!r}, {found[1]!r}.",
                hint="Compare those of each on their own.",
            )


def _clip(judged: Judged, index: int) -> ClipComparison:
    clip, reference = judged.pairing.clips[index], judged.references[index]
    about, modes = clip.about, judged.pairing.modes
    return ClipComparison(
        file=about.file,
        sha256=about.sha256 or "",
        duration_s=about.duration_s,
        start_s=about.start_s,
        end_s=about.end_s,
        captions={mode: clip.caption(mode) for mode in modes},
        flags={mode: flags for mode in modes if (flags := clip.first(mode).flags)},
        labels={mode: judged.said[mode][index] for mode in modes},
        emotions={mode: list(judged.emotions[mode][index]) for mode in modes},
        total_ms={mode: round(clip.middle(mode, lambda run: run.timing.total_ms), 4) for mode in modes},
        escalation_rate={mode: getattr(clip.first(mode).totals, "escalation_rate", None) for mode in modes},
        reference=reference.key if reference else None,
        reference_texts=list(reference.texts) if reference else [],
        reference_labels=dict(reference.labels) if reference else {},
    )
