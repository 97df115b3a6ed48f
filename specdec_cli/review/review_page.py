"""The page of a review: one HTML file that fetches nothing, plays the pieces, and saves corrections as references."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
_MB: Final = 1_000_000


@dataclass(slots=True)
class Sounds:
    """The audio of pieces: number of the piece -> base64 of its MP3, and why others have none."""

    audio: dict[int, str] = field(default_factory=dict)
    missing: dict[int, str] = field(default_factory=dict)
    left_out: int = 0  # because the page would become too large


def write_review(
    path: Path,
    pieces: Sequence[ReviewItem],
    lexicon: Lexicon,
    *,
    audio_mb: float,
    watch: Watch,
) -> Sounds:
    """Writes a page about `pieces`, whole or not at all; returns what it plays.

    Args:
        path: the file.
        pieces: in the order in which to show them.
        lexicon: whose classes corrections choose from.
        audio_mb: most audio that it holds, MB, the first pieces first.
        watch: told of each piece.

    Raises:
        TranscriptError: the file cannot be written.
    """
    sounds = _sounds(pieces, audio_mb * _MB, watch)
    write(path, render(pieces, lexicon, sounds), REVIEW)
    return sounds


def render(pieces: Sequence[ReviewItem], lexicon: Lexicon, sounds: Sounds) -> str:
    """The page itself; see `write_review`."""
    shown = [piece.shown() | {"missing": sounds.missing.get(number)} for number, piece in enumerate(pieces)]
    style = asset("report.css", "review.css")
    script = asset("dom.js", "audio.js", "timeline-of-pieces.js", "review.js", "theme.js")
    data: dict[str, Any] = {"attributes": _attributes(pieces, lexicon), "pieces": shown}
    data["id"] = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]
    return (
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
    for (path, sha256), numbers in _by_recording(pieces, chosen):
        watch.step(path)
        spans = [span for number in numbers if (span := pieces[number].span) is not None] or None
        try:
            for number, samples in zip(numbers, pieces_of(path, sha256, spans), strict=True):
                found.audio[number] = base64.b64encode(mp3(samples)).decode("ascii")
                watch.advance()
        except SoundUnavailable as unavailable:
            for number in numbers:
                if number not in found.audio:
                    found.missing[number] = str(unavailable)
                    watch.advance()
    return found


def _by_recording(pieces: Sequence[ReviewItem], numbers: Iterable[int]) -> Iterator[tuple[tuple[str, str], list[int]]]:
    """The path of a recording and its digest, and the numbers of its pieces by time, or of it as a whole."""
    found: defaultdict[tuple[str, str, bool], list[int]] = defaultdict(list)
    for number in sorted(numbers, key=lambda number: pieces[number].span or (0.0, 0.0)):
        piece = pieces[number]
        found[piece.run.file, piece.run.sha256 or "", piece.span is None].append(number)
    for (path, sha256, _), own in sorted(found.items()):
        yield (path, sha256), own
