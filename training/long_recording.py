"""A long recording made of labelled clips, and how well its utterances are found and captioned.

    python -m training.long_recording --data DIR --recordings 4               # cuts: clean and in noise
    python -m training.long_recording --data DIR --recordings 3 --captions    # emotion too

Clips of different speakers, whose active speech has no pause above 0.3 s, stand one after the other with 0.4 to 2 s of
silence between the ends of their active speech: 10 ms frames within 30 dB of the 97th percentile frame, and above -75
dBFS; blips under 40 ms do not count. Below 60 Hz nothing counts: many clips of RAVDESS end in half a second of air on
the microphone, which is up to 50 dB louder below 50 Hz than all above, and no speech.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import numpy as np
import soundfile
import typer

from specdec_cli.audio import open_recording
from specdec_cli.audio.levels import stretches_of
from specdec_cli.audio.prosody import HOP, speech_activity
from specdec_cli.captioner import Captioner
from specdec_cli.labels import Lexicon
from tools.report import print_table
from training.corpus import SAMPLE_RATE, Waveform, read_audio
from training.labels import Row, read_rows

TOLERANCE_S: Final = 0.3
SHARED_S: Final = 0.1
"""More of an utterance than this belongs to a piece, seconds."""
NOISE_DB: Final = 15.0
WINDOW_S: Final = 30.0
LOWEST_HZ: Final = 60.0
"""Of speech: below the lowest F0 that the labels know (65 Hz), there are steps and breath on the microphone."""
WHOLE: Final = "whole clips"
_PAUSE_S: Final = (0.4, 2.0)
_LONGEST_GAP_S: Final = 0.3

Places = Sequence[tuple[float, float]]
"""Start and end of utterances, seconds."""


class Clip(NamedTuple):
    """A labelled clip, and the first and the last sample of each run of active speech."""

    row: Row
    samples: Waveform
    runs: list[tuple[int, int]]


def active(samples: Waveform) -> list[tuple[int, int]]:
    """First and last sample of each run of active speech, in what lies above 60 Hz."""
    spectrum = np.fft.rfft(samples.astype(np.float64))
    spectrum[: int(np.ceil(LOWEST_HZ * len(samples) / SAMPLE_RATE))] = 0
    heard = np.fft.irfft(spectrum, len(samples)).astype(np.float32)
    return [(int(start), int(end)) for start, end in HOP * stretches_of(speech_activity(heard).active)]


def choose(data: Path, count: int, rng: np.random.Generator) -> list[Clip]:
    """Clips without a long pause, each once, of as many speakers as there are, in turn."""
    by_speaker = defaultdict[tuple[str, str], list[Row]](list)
    rows = [row for row in read_rows(data) if row.speaker]
    for index in rng.permutation(len(rows)):
        by_speaker[rows[index].corpus, rows[index].speaker].append(rows[index])
    chosen = list[Clip]()
    while len(chosen) < count and any(by_speaker.values()):
        for own in [list(by_speaker.values())[index] for index in rng.permutation(len(by_speaker))]:
            chosen += _suitable(data, own)
    return chosen[:count]


def _suitable(data: Path, rows: list[Row]) -> list[Clip]:
    """The last of the rows whose clip will do; it is taken out, and those behind it."""
    while rows:
        row = rows.pop()
        samples = read_audio(data / row.file)
        runs = active(samples)
        gaps = [start - end for (_, end), (start, _) in pairwise(runs)]
        if runs and max(gaps, default=0) <= _LONGEST_GAP_S * SAMPLE_RATE:
            return [Clip(row, samples, runs)]
    return []


def assemble(clips: Sequence[Clip], rng: np.random.Generator, *, whole: bool = False) -> tuple[Waveform, Places]:
    """The recording, and where the active speech of each clip is.

    Args:
        clips: in this order.
        rng: of the pauses.
        whole: keep what clips have before and after their active speech, as far as it fits into the pauses.
    """
    parts, places, at = [np.zeros(SAMPLE_RATE, np.float32)], list[tuple[float, float]](), SAMPLE_RATE
    for _, samples, runs in clips:
        (start, _), (_, end) = runs[0], runs[-1]
        room = int(rng.uniform(*_PAUSE_S) * SAMPLE_RATE) // 2
        kept = room - SAMPLE_RATE // 20 if whole else 0
        before, after = min(start, kept), min(len(samples) - end, kept)
        parts.append(np.pad(samples[start - before : end + after], (room - before, room - after)))
        places.append(((at + room) / SAMPLE_RATE, (at + room + end - start) / SAMPLE_RATE))
        at += len(parts[-1])
    return np.concatenate([*parts, parts[0]]), places


def levelled(clips: Sequence[Clip], rng: np.random.Generator) -> Iterator[Clip]:
    """The clips with active speech at -26 dBFS, give or take 6 dB, so that one noise has about one ratio to all."""
    for clip in clips:
        speech = np.concatenate([clip.samples[start:end] for start, end in clip.runs]).astype(np.float64)
        gain = 10 ** ((-26 + rng.uniform(-6, 6)) / 20) / float(np.sqrt(np.mean(speech**2)))
        yield clip._replace(samples=(gain * clip.samples).astype(np.float32))


def with_noise(samples: Waveform, places: Places, colour: str, rng: np.random.Generator) -> Waveform:
    """White or pink noise, 15 dB below the mean power of the speech."""
    spoken = np.concatenate([samples[int(s * SAMPLE_RATE) : int(e * SAMPLE_RATE)] for s, e in places])
    spectrum = np.fft.rfft(rng.standard_normal(len(samples)))
    if colour == "pink":
        spectrum /= np.sqrt(np.maximum(np.arange(len(spectrum)), 1))
    noise = np.fft.irfft(spectrum, len(samples))
    power = float(np.mean(spoken.astype(np.float64) ** 2)) / 10 ** (NOISE_DB / 10)
    noisy: Waveform = (samples + noise * np.sqrt(power) / noise.std()).astype(np.float32)
    return noisy


def variants(clips: Sequence[Clip]) -> Iterator[tuple[str, Waveform, Places]]:
    """Name, samples and utterances of each form of the recording."""

    def rng() -> np.random.Generator:
        return np.random.default_rng(0)

    yield "silence between", *assemble(clips, rng())
    yield WHOLE, *assemble(clips, rng(), whole=True)
    level, spoken = assemble(list(levelled(clips, rng())), rng())
    for colour in ("white", "pink"):
        yield f"{colour} noise at {NOISE_DB:g} dB", with_noise(level, spoken, colour, rng()), spoken


def score(path: Path, places: Places) -> list[int]:
    """Utterances at `places`; those found with both ends within 0.3 s; those cut in two; the pieces of a recording."""
    cuts = open_recording(path, window_s=WINDOW_S, at_pauses=True).spans
    ends, hits, cut = np.array([(span.start_s, span.end_s) for span in cuts]).reshape(-1, 2), 0, 0
    for start, end in places:
        hits += bool((np.abs(ends - (start, end)) <= TOLERANCE_S).all(axis=1).any())
        cut += int(np.sum(np.minimum(ends[:, 1], end) - np.maximum(ends[:, 0], start) > SHARED_S)) > 1
    return [len(places), hits, cut, len(ends)]


def emotions_right(captioner: Captioner, clips: Sequence[Clip], path: Path, places: Places) -> Iterator[list[bool]]:
    """Whether the caption of each clip with an emotion, and of the piece that holds it, names that emotion."""
    pieces, alone = list(captioner.captions(path)), path.with_name("clip.wav")
    for clip, (start, end) in zip(clips, places, strict=True):
        if "emotion" in clip.row.classes:
            soundfile.write(alone, clip.samples, SAMPLE_RATE, "FLOAT")
            piece = max(pieces, key=lambda each: min(each.end_s or 0, end) - max(each.start_s or 0, start))
            named = [(each.labels or {}).get("emotion") for each in (captioner.caption(alone), piece)]
            yield [emotion == clip.row.classes["emotion"] for emotion in named]


def main(
    data: Annotated[Path, typer.Option(help="Folder with labels.tsv and the clips.")],
    clips: Annotated[int, typer.Option(min=1, help="How many a recording is made of.")] = 180,
    recordings: Annotated[int, typer.Option(min=1, help="How many are made, each of other clips.")] = 1,
    captions: Annotated[bool, typer.Option("--captions", help="Caption them in English too.")] = False,
    threads: Annotated[int, typer.Option(min=1, help="Of PyTorch.")] = 1,
) -> None:
    """Make long recordings of labelled clips, and measure how their utterances are found and captioned."""
    every = choose(data, clips * recordings, np.random.default_rng(0))
    found, right = defaultdict[str, list[list[int]]](list), list[list[bool]]()
    settings: dict[str, object] = {"prompt.language": "en", "runtime.threads": threads}
    captioner = Captioner.load("mini", settings).labelled(Lexicon.read()) if captions else None
    with tempfile.TemporaryDirectory(prefix="long-recording-") as name:
        path = Path(name) / "long.flac"
        for at in range(0, len(every), clips):
            group = every[at : at + clips]
            for title, samples, places in variants(group):
                soundfile.write(path, samples, SAMPLE_RATE)
                found[title].append(score(path, places))
                if captioner is not None and title == WHOLE:
                    right += emotions_right(captioner, group, path, places)
    sums = {title: np.sum(scores, axis=0).tolist() for title, scores in found.items()}
    rows = [[title, f"{hits / total:.1%}", str(cut), str(pieces)] for title, (total, hits, cut, pieces) in sums.items()]
    print_table(f"{len(every)} utterances", ["", "found", "cut in two", "pieces"], rows)
    if right:
        alone, within = np.mean(right, axis=0)
        print(f"emotion right in {alone:.1%} of {len(right)} clips alone, in {within:.1%} of the pieces that hold them")


if __name__ == "__main__":
    typer.run(main)
