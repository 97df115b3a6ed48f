"""Everything that the page says of one clip, as plain values for its script."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import PurePath
from typing import Any

from rapidfuzz.distance import Levenshtein

from specdec_cli.compare.result import ClipComparison, Comparison
from specdec_cli.report.rounds import run_view
from specdec_cli.report.sound import SoundReader, SoundUnavailable
from specdec_cli.transcript import Transcript
from specdec_cli.types import Mode

_Key = tuple[str, str | None, float | None]


def clip_views(
    comparison: Comparison, transcripts: Mapping[Mode, Sequence[Transcript]], reader: SoundReader
) -> Iterator[tuple[dict[str, Any], str | None]]:
    """The clips of `comparison`, in its order: what the script draws, and the MP3 in base64 if there is one to play.

    Of several transcripts of one clip in one mode, as repeats give, the first is shown.
    """
    runs: dict[tuple[Mode, _Key], Transcript] = {}
    for mode in comparison.modes:
        for transcript in transcripts.get(mode, ()):
            if transcript.caption is not None:
                runs.setdefault((mode, (transcript.file, transcript.sha256, transcript.start_s)), transcript)
    for clip in comparison.clips:
        key = (clip.file, clip.sha256, clip.start_s)
        sound, missing = None, None
        try:
            sound = reader.read(clip.file, clip.sha256, clip.start_s, clip.end_s)
        except SoundUnavailable as unavailable:
            missing = str(unavailable)
        values = {
            **_words(clip, comparison),
            "runs": {mode: run_view(runs[mode, key]) for mode in comparison.modes if (mode, key) in runs},
            "sound": sound.drawing if sound else None,
            "missing": missing,
        }
        audio = base64.b64encode(sound.mp3).decode("ascii") if sound and sound.mp3 is not None else None
        yield values, audio


def disagreement(captions: Sequence[str]) -> float:
    """Largest edit distance between two of the captions in characters, as a share of the longer, 0 to 1."""
    return max((Levenshtein.normalized_distance(a, b) for a, b in combinations(captions, 2)), default=0.0)


def _words(clip: ClipComparison, comparison: Comparison) -> dict[str, Any]:
    captions = [clip.captions[mode] for mode in comparison.modes]
    return {
        "file": clip.file,
        "name": PurePath(clip.file).name or clip.file,
        "seconds": clip.duration_s,
        "start": clip.start_s,
        "end": clip.end_s,
        "captions": {mode: clip.captions[mode] for mode in comparison.modes},
        "labels": {mode: clip.labels.get(mode, {}) for mode in comparison.modes},
        "total": {mode: clip.total_ms.get(mode) for mode in comparison.modes},
        "escalation": {mode: clip.escalation_rate.get(mode) for mode in comparison.modes},
        "disagreement": round(disagreement(captions), 4),
        "texts": clip.reference_texts,
        "truth": clip.reference_labels,
    }
