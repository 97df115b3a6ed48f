"""The page of a comparison: one HTML file that fetches nothing, with a view of every clip."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import PurePath
from typing import Any, Final

from rapidfuzz.distance import Levenshtein

from specdec_cli import format as figures
from specdec_cli.evaluate import comparison_tables as tables
from specdec_cli.evaluate.result import ClipComparison, Comparison
from specdec_cli.evaluate.trade_off import HEIGHT, panels
from specdec_cli.labels import Lexicon
from specdec_cli.pages.offline import offline_page
from specdec_cli.pages.sound import ClipSound, SoundUnavailable, read_sound, whole_recording
from specdec_cli.transcript import Transcript
from specdec_cli.transcript.token_fates import run_view
from specdec_cli.types import FLAG_WORDS, Mode

_SCRIPTS: Final = (
    *("dom.js", "audio.js", "sound.js", "timeline.js", "tokens.js", "clip.js", "list.js"),
    "app.js",
)
"""Joined in this order into one module."""


def render(comparison: Comparison, transcripts: Iterable[Transcript], lexicon: Lexicon) -> str:
    """`comparison` as a page that works offline.

    Recordings are read again for their waveform and pitch; one that is gone or has changed since is shown without.

    Args:
        transcripts: of the clips of the comparison; of several of one clip and mode the first is shown.
        lexicon: that the captions were read with.
    """
    runs: dict[tuple[object, ...], Transcript] = {}
    for run in transcripts:
        if run.caption is not None:
            runs.setdefault((run.mode, run.file, run.sha256, run.start_s, run.end_s, run.channel), run)
    clips, audio = [], []
    for number, clip in enumerate(comparison.clips, 1):
        place = clip.file, clip.sha256, clip.start_s, clip.end_s, clip.channel
        own = {mode: runs.get((mode, *place)) for mode in comparison.modes}
        values, sound = _clip(clip, own, lexicon)
        clips.append(values)
        audio += [(number, base64.b64encode(sound.mp3).decode("ascii"))] if sound else []
    whole_recording.cache_clear()
    return offline_page(
        "page.html.j2",
        ["report.css"],
        _SCRIPTS,
        data=comparison.model_dump(mode="json", include={"modes", "language", "attributes", "texts"})
        | {"clips": clips, "flags": FLAG_WORDS},
        audio=audio,
        comparison=comparison,
        settings=[(name, figures.setting(value)) for name, value in comparison.settings.items() if value is not None],
        costs=tables.costs(comparison),
        quality=tables.quality(comparison),
        gaps=tables.gaps(comparison),
        meanings=tables.meanings,
        confusions=tables.confusions(comparison, lexicon),
        worst_confusions=tables.worst_confusions(comparison),
        about_references=tables.about_references(comparison),
        panels=panels(comparison),
        height=HEIGHT,
    )


def _clip(
    clip: ClipComparison, runs: Mapping[Mode, Transcript | None], lexicon: Lexicon
) -> tuple[dict[str, Any], ClipSound | None]:
    """What the page's script draws of a clip, and its sound."""
    sound, missing = None, None
    track = next((run.settings.get("track") for run in runs.values() if run is not None), None)
    try:
        place = clip.start_s, clip.end_s, clip.channel
        sound = read_sound(clip.file, clip.sha256, *place, track if isinstance(track, int) else None)
    except SoundUnavailable as unavailable:
        missing = str(unavailable)
    return clip.model_dump(mode="json") | {
        "name": PurePath(clip.file).name or clip.file,
        "measured": {mode: _against_sound(labels, sound, lexicon) for mode, labels in clip.labels.items()},
        "disagreement": round(disagreement(list(clip.captions.values())), 4),
        "runs": {mode: run_view(run) for mode, run in runs.items() if run is not None},
        "sound": sound.drawing if sound else None,
        "missing": missing,
    }, sound


def _against_sound(
    labels: Mapping[str, str | None], sound: ClipSound | None, lexicon: Lexicon
) -> list[tuple[str, bool]]:
    """The classes that can be measured, beside the figures, and whether they fit; empty without the sound."""
    claims = lexicon.claims(labels, sound.figures) if sound else ()
    return [(figures.claimed(claim), claim.agrees) for claim in claims if claim.agrees is not None]


def disagreement(captions: Sequence[str]) -> float:
    """Largest edit distance between two of the captions in characters, as a share of the longer, 0 to 1."""
    return max((Levenshtein.normalized_distance(a, b) for a, b in combinations(captions, 2)), default=0.0)
