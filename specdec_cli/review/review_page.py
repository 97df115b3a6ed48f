"""The page of a review: one HTML file that fetches nothing, plays the pieces, and saves corrections as references."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from specdec_cli.labels import Lexicon
from specdec_cli.pages.offline import asset, environment, policy
from specdec_cli.pages.sound import BIT_RATE, SoundUnavailable, mp3, pieces_of
from specdec_cli.review.pieces import ReviewItem
from specdec_cli.store import Watch
from specdec_cli.targets import REVIEW, write

_PAGE_BYTES_A_SECOND: Final = BIT_RATE / 8 * 4 / 3  # base64


@dataclass(slots=True)
class Sounds:
    """The audio of pieces: number of the piece -> base64 of its MP3, and why others have none."""

    audio: dict[int, str] = field(default_factory=dict)
    missing: dict[int, str] = field(default_factory=dict)
    left_out: int = 0  # because the page would become too large


def write_review(
    path: Path, pieces: Sequence[ReviewItem], lexicon: Lexicon, *, audio_mb: float, watch: Watch
) -> Sounds:
    """Writes a page about `pieces` in this order, whole or not at all; returns what it plays.

    Corrections choose from the classes of `lexicon`. It holds at most `audio_mb` MB of audio, the first pieces first,
    and `watch` is told of each.

    Raises:
        TranscriptError: the file cannot be written.
    """
    sounds = _sounds(pieces, audio_mb * 1e6, watch)
    shown = [piece.shown() | {"missing": sounds.missing.get(number)} for number, piece in enumerate(pieces)]
    style = asset("report.css", "review.css")
    script = asset("dom.js", "audio.js", "timeline-of-pieces.js", "review.js", "theme.js")
    data: dict[str, Any] = {"attributes": _attributes(pieces, lexicon), "pieces": shown}
    data["id"] = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]
    page = (
        environment()
        .get_template("review.html.j2")
        .render(
            policy=policy(script, style),
            style=Markup(style),
            script=Markup(script),
            pieces=len(pieces),
            doubtful=sum(piece.doubtful for piece in pieces),
            left_out=sounds.left_out,
            scored=any(piece.run.scores for piece in pieces),
            data=data,
            audio=sorted(sounds.audio.items()),
        )
    )
    write(path, page, REVIEW)
    return sounds


def _attributes(pieces: Sequence[ReviewItem], lexicon: Lexicon) -> Mapping[str, Sequence[str]]:
    """Attributes that a caption or a reference has a class of, emotion first, with all their classes."""
    named = {name for piece in pieces for name, class_ in (*piece.labels.items(), *piece.truth.items()) if class_}
    order = sorted(lexicon.attributes, key=lambda name: name != "emotion")
    return {name: lexicon.attributes[name] for name in order if name in named}


def _sounds(pieces: Sequence[ReviewItem], most_bytes: float, watch: Watch) -> Sounds:
    """Encodes the first pieces that fit, one recording after the other."""
    found, room, chosen = Sounds(), most_bytes, list[int]()
    for number, piece in enumerate(pieces):
        room -= (piece.run.duration_s or 0.0) * _PAGE_BYTES_A_SECOND
        if room >= 0:
            chosen.append(number)
    found.left_out = len(pieces) - len(chosen)
    watch.begin(len(chosen))
    recordings: defaultdict[tuple[str, str, bool], list[int]] = defaultdict(list)  # pieces of each by time
    for number in sorted(chosen, key=lambda number: pieces[number].span or (0.0, 0.0)):
        run = pieces[number].run
        recordings[run.file, run.sha256 or "", pieces[number].span is None].append(number)
    for (path, sha256, _), numbers in sorted(recordings.items()):
        watch.step(path)
        spans = [span for number in numbers if (span := pieces[number].span) is not None] or None
        try:
            for number, samples in zip(numbers, pieces_of(path, sha256, spans), strict=True):
                found.audio[number] = base64.b64encode(mp3(samples)).decode("ascii")
                watch.advance()
        except SoundUnavailable as unavailable:
            for number in [number for number in numbers if number not in found.audio]:
                found.missing[number] = str(unavailable)
                watch.advance()
    return found
