"""The page of a comparison: one HTML file that fetches nothing, with a view of every clip."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, combinations, groupby
from pathlib import PurePath
from typing import Any, Final

from rapidfuzz.distance import Levenshtein

from specdec_cli import format as figures
from specdec_cli.evaluate import comparison_tables as tables
from specdec_cli.evaluate import page_words
from specdec_cli.evaluate.result import ClipComparison, Comparison
from specdec_cli.evaluate.trade_off import HEIGHT, panels
from specdec_cli.labels import Lexicon
from specdec_cli.pages.offline import offline_page
from specdec_cli.pages.sound import AUDIO_MB, PAGE_BYTES_A_SECOND, ClipSound, SoundUnavailable, clip_sound, pieces_of
from specdec_cli.transcript import Transcript
from specdec_cli.transcript.token_fates import run_view
from specdec_cli.types import Mode

_SCRIPTS: Final = (
    *("dom.js", "audio.js", "sound.js", "tokens.js", "clip.js", "list.js"),
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
    own = list[dict[Mode, Transcript | None]]()
    for clip in comparison.clips:
        place = clip.file, clip.sha256, clip.start_s, clip.end_s, clip.channel
        own.append({mode: runs.get((mode, *place)) for mode in comparison.modes})
    sounds, left_out = _sounds(comparison.clips, list(map(_track, own)))
    clips, audio = [], []
    for at, (clip, of_clip) in enumerate(zip(comparison.clips, own, strict=True)):
        said = {
            "summary": page_words.of_clip(clip, comparison.modes, comparison.attributes),
            "facts": {mode: page_words.of_run(clip, mode, run) for mode, run in of_clip.items()},
            "place": page_words.place_of(clip),
        }
        clips.append(_clip(clip, of_clip, sounds[at], lexicon) | said)
        if isinstance(sound := sounds[at], ClipSound) and sound.mp3:
            audio.append((at + 1, base64.b64encode(sound.mp3).decode("ascii")))
    return offline_page(
        "page.html.j2",
        ["report.css"],
        _SCRIPTS,
        data={"clips": clips}
        | comparison.model_dump(mode="json", include={"modes", "language", "attributes", "texts"}),
        audio=audio,
        left_out=left_out,
        comparison=comparison,
        settings=[(name, figures.setting(value)) for name, value in comparison.settings.items() if value is not None],
        costs=tables.costs(comparison),
        quality=tables.quality(comparison),
        gaps=tables.gaps(comparison),
        by_group=tables.by_group(comparison),
        meanings=tables.meanings,
        confusions=tables.confusions(comparison, lexicon),
        worst_confusions=tables.worst_confusions(comparison),
        about_references=tables.about_references(comparison.reference_columns),
        panels=panels(comparison),
        height=HEIGHT,
    )


def _sounds(clips: Sequence[ClipComparison], tracks: Sequence[int]) -> tuple[list[ClipSound | str], int]:
    """The sound of each clip, or why there is none, and how many clips are not played, to keep the page small.

    A recording is read once, with one clip in memory at a time.
    """
    sizes = accumulate((clip.duration_s or 0.0) * PAGE_BYTES_A_SECOND for clip in clips)
    played = sum(size <= AUDIO_MB * 1e6 for size in sizes)
    found: list[ClipSound | str] = ["The recording is shorter than it was when it was captioned."] * len(clips)

    def recording(at: int) -> tuple[str, str, bool, int, int]:
        clip = clips[at]
        return clip.file, clip.sha256, clip.start_s is None, clip.channel or 0, tracks[at]

    places = [(clip.start_s or 0.0, clip.end_s or math.inf) for clip in clips]
    by_time = sorted(range(len(clips)), key=lambda at: (recording(at), places[at]))
    for (file, sha256, whole, channel, track), group in groupby(by_time, recording):
        numbers = list(group)
        spans = None if whole else [places[at] for at in numbers]
        done = 0
        try:
            for at, piece in zip(numbers, pieces_of(file, sha256, spans, channel or None, track or None), strict=False):
                if len(piece.samples):
                    found[at] = clip_sound(piece.samples, played=at < played)
                done += 1
        except SoundUnavailable as unavailable:
            for at in numbers[done:]:
                found[at] = str(unavailable)
    return found, len(clips) - played


def _track(runs: Mapping[Mode, Transcript | None]) -> int:
    """The track of a video that was captioned; 0: its default one."""
    track = next((run.settings.get("track") for run in runs.values() if run is not None), None)
    return track if isinstance(track, int) else 0


def _clip(
    clip: ClipComparison, runs: Mapping[Mode, Transcript | None], sound: ClipSound | str, lexicon: Lexicon
) -> dict[str, Any]:
    """The data from which the page's script draws a clip."""
    heard = sound if isinstance(sound, ClipSound) else None
    return clip.model_dump(mode="json") | {
        "name": PurePath(clip.file).name or clip.file,
        "measured": {mode: _against_sound(labels, heard, lexicon) for mode, labels in clip.labels.items()},
        "disagreement": round(disagreement(list(clip.captions.values())), 4),
        "runs": {mode: _run(run) for mode, run in runs.items() if run is not None},
        "sound": heard.drawing if heard else None,
        "missing": None if heard else sound,
    }


def _run(run: Transcript) -> dict[str, Any]:
    """The rounds of a run, token by token, and in words."""
    view = run_view(run)
    for shown, round_ in zip(view["rounds"], run.rounds, strict=True):
        shown["summary"] = page_words.of_round(run, round_)
    return view | {"summary": page_words.of_rounds(run)}


def _against_sound(
    labels: Mapping[str, str | None], sound: ClipSound | None, lexicon: Lexicon
) -> list[tuple[str, bool]]:
    """The classes that can be measured, beside the figures, and whether they fit; empty without the sound."""
    claims = lexicon.claims(labels, sound.figures) if sound else ()
    return [(figures.claimed(claim), claim.agrees) for claim in claims if claim.agrees is not None]


def disagreement(captions: Sequence[str]) -> float:
    """Largest edit distance between two of the captions in characters, as a share of the longer, 0 to 1."""
    return max((Levenshtein.normalized_distance(a, b) for a, b in combinations(captions, 2)), default=0.0)
