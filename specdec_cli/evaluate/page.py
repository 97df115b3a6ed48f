"""The report: one HTML file that fetches nothing, with a view for every clip."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import PurePath
from typing import Any, Final

from markupsafe import Markup
from rapidfuzz.distance import Levenshtein

from specdec_cli import format as figures
from specdec_cli.evaluate import comparison_tables as tables
from specdec_cli.evaluate.result import Comparison
from specdec_cli.labels import Lexicon
from specdec_cli.pages.offline import asset, environment, policy
from specdec_cli.pages.sound import ClipSound, SoundUnavailable, read_sound, whole_recording
from specdec_cli.transcript import Transcript
from specdec_cli.transcript.token_fates import run_view
from specdec_cli.types import Mode

_SCRIPTS: Final = (
    *("dom.js", "audio.js", "sound.js", "timeline.js", "tokens.js", "clip.js", "list.js"),
    *("theme.js", "app.js"),
)
"""Joined in this order into one module."""


def render(
    comparison: Comparison, transcripts: Mapping[Mode, Sequence[Transcript]], *, lexicon: Lexicon | None = None
) -> str:
    """`comparison` as a page that works offline.

    Recordings are read again for their waveform and pitch; one that is gone or has changed since is shown without.

    Args:
        transcripts: of each mode; those of one clip are found by file, digest and start.
        lexicon: by which classes are set against what is measured of the sound; None: they are not.
    """
    template = environment().get_template("page.html.j2")
    style, script = asset("report.css"), asset(*_SCRIPTS)
    clips = list(_clips(comparison, transcripts, lexicon))
    whole_recording.cache_clear()
    settings = [(name, figures.setting(value)) for name, value in comparison.settings.items()]
    return template.render(
        policy=policy(script, style),
        style=Markup(style),
        script=Markup(script),
        comparison=comparison,
        settings=settings,
        tables=tables,
        data={
            **{name: getattr(comparison, name) for name in ("modes", "language", "attributes")},
            "clips": [values for values, _ in clips],
        },
        audio=[
            (number, base64.b64encode(sound.mp3).decode("ascii")) for number, (_, sound) in enumerate(clips, 1) if sound
        ],
    )


def _clips(
    comparison: Comparison, transcripts: Mapping[Mode, Sequence[Transcript]], lexicon: Lexicon | None
) -> Iterator[tuple[dict[str, Any], ClipSound | None]]:
    """The clips of `comparison`, in its order: what the page's script draws of each, and its sound.

    Of several transcripts of one clip in one mode, as repeats give, the first is shown.
    """
    runs = {
        (run.mode, run.file, run.sha256, run.start_s): run
        for own in transcripts.values()
        for run in reversed(own)
        if run.caption is not None
    }
    for clip in comparison.clips:
        own = {mode: runs.get((mode, clip.file, clip.sha256, clip.start_s)) for mode in comparison.modes}
        sound, missing = None, None
        try:
            sound = read_sound(clip.file, clip.sha256, clip.start_s, clip.end_s)
        except SoundUnavailable as unavailable:
            missing = str(unavailable)
        values = clip.model_dump(mode="json") | {
            "name": PurePath(clip.file).name or clip.file,
            "measured": {mode: _against_sound(clip.labels[mode], sound, lexicon) for mode in comparison.modes},
            "disagreement": round(disagreement(list(clip.captions.values())), 4),
            "runs": {mode: run_view(run) for mode, run in own.items() if run is not None},
            "sound": sound.drawing if sound else None,
            "missing": missing,
        }
        yield values, sound


def _against_sound(labels: Mapping[str, str | None], sound: ClipSound | None, lexicon: Lexicon | None) -> str:
    """Which of the classes fit what was measured of the sound, in words; empty where none can be compared."""
    claims = lexicon.claims(labels, sound.figures) if lexicon and sound else ()
    fitting = [claim.attribute for claim in claims if claim.agrees]
    facts = [f"fits the measurement: {', '.join(fitting)}"] if fitting else []
    return "; ".join([*facts, *(figures.contradiction(claim) for claim in claims if claim.agrees is False)])


def disagreement(captions: Sequence[str]) -> float:
    """Largest edit distance between two of the captions in characters, as a share of the longer, 0 to 1."""
    return max((Levenshtein.normalized_distance(a, b) for a, b in combinations(captions, 2)), default=0.0)
