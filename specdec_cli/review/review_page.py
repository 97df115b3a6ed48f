"""The page of a review: one HTML file that fetches nothing, plays the pieces, and saves corrections as references."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby, repeat
from pathlib import Path, PurePath
from typing import Any, Final

from specdec_cli.errors import WrongFileError
from specdec_cli.export.recordings import Stored
from specdec_cli.format import claimed, measured
from specdec_cli.journal import Watch
from specdec_cli.labels import Lexicon
from specdec_cli.labels.references import References
from specdec_cli.pages.offline import offline_page
from specdec_cli.pages.sound import PAGE_BYTES_A_SECOND, SoundUnavailable, mp3, pieces_of
from specdec_cli.text import readable
from specdec_cli.transcript.lines import transcript_at
from specdec_cli.transcript.records import Transcript
from specdec_cli.types import FLAG_WORDS, Claim
from specdec_cli.written import digest

_SHOWN: Final = {"language", "caption", "scores", "speaker", "text", "channel"}
"""Fields of a transcript that the page shows as they are, where it has them."""


@dataclass(frozen=True, slots=True)
class ReviewItem:
    """A captioned recording, or a captioned piece of one."""

    run: Transcript
    labels: Mapping[str, str | None]  # attribute -> class that the caption names
    truth: Mapping[str, str]  # attribute -> class, from references
    claims: tuple[Claim, ...] = ()  # the labels that can be measured, beside the figures

    @property
    def doubt(self) -> float | None:
        """1 - probability of the least likely class that the caption names, 0 to 1; None without probabilities."""
        scores = self.run.scores or {}
        named = [each.classes.get(self.labels.get(name) or "", 0.0) for name, each in scores.items()]
        return 1 - min(named) if named else None

    @property
    def doubtful(self) -> bool:
        """Whether a person should look at it: the models disagree, a class is unlikely, or it is flagged."""
        return self.run.needs_review is True or bool(self.run.flags)

    def order(self) -> tuple[object, ...]:
        """Key that sorts the least certain pieces first."""
        return "contradicts" not in self.run.flags, not self.doubtful, -(self.doubt or 0.0)

    @property
    def span(self) -> tuple[float, float] | None:
        """Start and end in the recording, s; None: all of it."""
        run = self.run
        return None if run.start_s is None or run.end_s is None else (run.start_s, run.end_s)

    def unseen(self) -> dict[str, Any]:
        """The same without captions and classes, so that a person chooses classes by ear."""
        nothing: dict[str, Any] = {"labels": {}, "scores": {}, "claims": {}, "figures": [], "flags": []}
        return self.shown() | {"caption": "", "review": False, "doubt": None} | nothing

    def shown(self) -> dict[str, Any]:
        """The piece as the page's script reads it."""
        run = self.run
        return {
            "file": readable(run.file),
            "name": readable(PurePath(run.file).name or run.file),
            "start": run.start_s,
            "end": run.end_s,
            "seconds": run.duration_s,
            "review": self.doubtful,
            "doubt": self.doubt,
            "labels": self.labels,
            "truth": self.truth,
            "scores": {},
            **{name: value for name, value in run.model_dump(mode="json", include=_SHOWN).items() if value is not None},
            "figures": measured(run.measured) if run.measured else [],
            "flags": [FLAG_WORDS[flag] for flag in run.flags],
            "claims": {each.attribute: [claimed(each), each.agrees] for each in self.claims if each.agrees is not None},
        }


def read_pieces(
    paths: Sequence[Path], lexicon: Lexicon, references: References | None, mode: str | None = None
) -> list[ReviewItem]:
    """The pieces in files of transcripts, the least certain first.

    Of a clip captioned again in the same language and mode by the same models, the last ones.

    Captions that contradict the sound come before all others: hardly one of them is right.

    `lexicon` finds the classes of transcripts without labels, `references` have those that are known, and `mode`
    chooses captions of one mode.

    Raises:
        TranscriptError: a file holds something else, or no caption.
        ConfigError: a recording has captions in several modes.
        ReferencesError: the references are about none of the recordings, or one row may be about several.
    """
    found: dict[tuple[object, ...], ReviewItem] = {}
    known = lexicon.attributes  # a correction is a class that tables of references may name
    for path in paths:
        for piece in (
            piece for recording in Stored.read(path, mode=mode, lexicon=lexicon) for piece in recording.pieces
        ):
            run = transcript_at(path, piece.line)
            labels = piece.line.head.labels or {}
            labels = {name: of if of in known[name] else None for name, of in labels.items() if name in known}
            claims = () if run.measured is None else lexicon.claims(labels, run.measured)
            made_by = run.language, run.mode, run.models.model_dump_json()  # each way of captioning is a piece
            found[piece.line.key, run.start_s, run.end_s, run.channel, made_by] = ReviewItem(run, labels, {}, claims)
    if not found:
        message = f"{', '.join(map(str, paths))} holds no caption."
        raise WrongFileError(message, hint="Caption recordings first: specdec batch RECORDINGS -o captions.jsonl")
    items = list(found.values())
    if references is not None:
        references.require_some([item.run.file for item in items])
        truths = [references.of(item.run) for item in items]
        items = [
            replace(item, truth=truth.labels) if truth else item for item, truth in zip(items, truths, strict=True)
        ]
    return sorted(items, key=ReviewItem.order)


@dataclass(slots=True)
class Sounds:
    """The audio of pieces: number of the piece -> base64 of its MP3; and the reasons why others lack it."""

    audio: dict[int, str] = field(default_factory=dict)
    missing: dict[int, str] = field(default_factory=dict)
    left_out: int = 0  # because the page would become too large


def review_page(
    pieces: Sequence[ReviewItem], lexicon: Lexicon, *, audio_mb: float, watch: Watch, blind: bool = False
) -> tuple[str, Sounds]:
    """The page about `pieces` in this order, and what it plays.

    Corrections choose from the classes of `lexicon`. The page holds at most `audio_mb` MB of audio, that of the first
    pieces; `watch` shows the progress. `blind`: captions and their classes are not in it.
    """
    sounds = _sounds(pieces, audio_mb * 1e6, watch)
    data_of = ReviewItem.unseen if blind else ReviewItem.shown
    shown = [data_of(piece) | {"missing": sounds.missing.get(number)} for number, piece in enumerate(pieces)]
    data: dict[str, Any] = {"attributes": _attributes(pieces, lexicon), "pieces": shown}
    data["id"] = digest(json.dumps(data, sort_keys=True).encode())
    page = offline_page(
        "review.html.j2",
        ["report.css", "review.css"],
        ["dom.js", "audio.js", "timeline-of-pieces.js", "review.js"],
        data=data,
        audio=sorted(sounds.audio.items()),
        pieces=len(pieces),
        doubtful=0 if blind else sum(piece.doubtful for piece in pieces),
        left_out=sounds.left_out,
        scored=not blind and any(piece.run.scores for piece in pieces),
    )
    return page, sounds


def _attributes(pieces: Sequence[ReviewItem], lexicon: Lexicon) -> Mapping[str, Sequence[str]]:
    """Attributes that a caption or a reference has a class of, emotion first, with all their classes."""
    named = {name for piece in pieces for name, class_ in (*piece.labels.items(), *piece.truth.items()) if class_}
    order = sorted(lexicon.attributes, key=lambda name: name != "emotion")
    return {name: lexicon.attributes[name] for name in order if name in named}


def _sounds(pieces: Sequence[ReviewItem], most_bytes: float, watch: Watch) -> Sounds:
    """Encodes the first pieces that fit, one recording after the other."""
    sizes = accumulate((piece.run.duration_s or 0.0) * PAGE_BYTES_A_SECOND for piece in pieces)
    chosen = pieces[: sum(size <= most_bytes for size in sizes)]
    found = Sounds(left_out=len(pieces) - len(chosen))
    watch.begin(len(chosen))

    def recording(number: int) -> tuple[str, str, bool, int, int]:
        run = chosen[number].run
        channel, track = run.channel or 0, run.settings.get("track")
        return run.file, run.sha256 or "", chosen[number].span is None, channel, track if isinstance(track, int) else 0

    by_time = sorted(range(len(chosen)), key=lambda number: (recording(number), chosen[number].span or ()))
    for (path, sha256, _, channel, track), group in groupby(by_time, recording):
        numbers = list(group)
        watch.step(path)
        spans = [span for number in numbers if (span := chosen[number].span) is not None] or None
        try:
            found_pieces = pieces_of(path, sha256, spans, channel or None, track or None)
            sounds = (piece.samples for piece in found_pieces)
            played = (base64.b64encode(mp3(samples)).decode("ascii") for samples in sounds)
            for number, audio in zip(numbers, played if spans else repeat(next(played)), strict=spans is not None):
                found.audio[number] = audio
                watch.advance()
        except SoundUnavailable as unavailable:
            for number in (number for number in numbers if number not in found.audio):
                found.missing[number] = str(unavailable)
                watch.advance()
    return found
