"""A long recording made of labelled clips, and how well its utterances are found and captioned.

    python -m tools.long_recording --data DIR --recordings 4               # cuts: clean, in noise, as m4a and mp3
    python -m tools.long_recording --data DIR --recordings 3 --captions    # emotion and prosody too
    python -m tools.long_recording --data DIR --write long.flac            # the recording alone

Clips of different speakers, whose active speech has no pause above 0.3 s, stand one after the other with 0.4 to 2 s of
silence between the ends of their active speech: 10 ms frames within 30 dB of the 97th percentile frame, and above -75
dBFS; blips under 40 ms do not count. Below 60 Hz nothing counts: many clips of RAVDESS end in half a second of air on
the microphone, which is up to 50 dB louder below 50 Hz than all above, and no speech. `--lowest-hz 0` counts it.
`librosa.effects.split` (45 dB, gaps below 0.3 s joined) is the baseline.
"""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from json import dumps
from pathlib import Path
from typing import Annotated, Any, Final

import av
import numpy as np
import numpy.typing as npt
import soundfile
import typer

from specdec_cli.audio import open_recording
from specdec_cli.audio.prosody import HOP, runs_of, speech_activity
from specdec_cli.batch.local import LocalBackend
from specdec_cli.batch.tasks import Outcome, Task
from specdec_cli.captioner import Captioner
from specdec_cli.inputs.recording import InputFile
from specdec_cli.prompts import Language
from specdec_cli.run import peak_rss_mb
from specdec_cli.transcript.records import Transcript
from tools.table import print_table
from training.corpus import SAMPLE_RATE, Waveform, read_audio
from training.labels import PROSODY, Row, read_rows
from training.scoring import Scored, attribute_accuracy

TOLERANCE_S: Final = 0.3
SHARED_S: Final = 0.1
"""More of an utterance than this belongs to a piece, seconds."""
NOISE_DB: Final = 15.0
WINDOW_S: Final = 30.0
LOWEST_HZ: Final = 60.0
"""Of speech: below the lowest F0 that the labels know (65 Hz), there are steps and breath on the microphone."""

_PAUSE_S: Final = (0.4, 2.0)
_LONGEST_GAP_S: Final = 0.3

Places = Sequence[tuple[float, float]]
"""Start and end of utterances, seconds."""


@dataclass(frozen=True, slots=True)
class Clip:
    """A labelled clip, and the first and the last sample of its active speech."""

    row: Row
    samples: Waveform
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Found:
    """How well utterances were found.

    Attributes:
        share: of the utterances, those found with both ends within 0.3 s.
        cut: utterances of which two pieces have more than 0.1 s each.
        short: others whose beginning or end is missing, more than 0.3 s.
        pieces: found.
    """

    share: float
    cut: int
    short: int
    pieces: int


def active(samples: Waveform, lowest_hz: float = LOWEST_HZ) -> list[tuple[int, int]]:
    """First and last sample of each run of active speech, in what lies above a frequency."""
    spectrum = np.fft.rfft(samples.astype(np.float64))
    spectrum[: int(np.ceil(lowest_hz * len(samples) / SAMPLE_RATE))] = 0
    heard = np.fft.irfft(spectrum, len(samples))
    return [(int(start), int(end)) for start, end in HOP * runs_of(speech_activity(heard.astype(np.float32)).active)]


def choose(data: Path, count: int, rng: np.random.Generator, lowest_hz: float = LOWEST_HZ) -> list[Clip]:
    """Clips without a long pause, each once, of as many speakers as there are, in turn."""
    by_speaker: dict[tuple[str, str], list[Row]] = defaultdict(list)
    rows = [row for row in read_rows(data) if row.speaker]
    for index in rng.permutation(len(rows)):
        by_speaker[rows[index].corpus, rows[index].speaker].append(rows[index])
    chosen: list[Clip] = []
    while len(chosen) < count and any(by_speaker.values()):
        for own in [list(by_speaker.values())[index] for index in rng.permutation(len(by_speaker))]:
            clip = next(_suitable(data, own, lowest_hz), None)
            if clip is not None and len(chosen) < count:
                chosen.append(clip)
    return chosen


def _suitable(data: Path, rows: list[Row], lowest_hz: float) -> Iterator[Clip]:
    while rows:
        row = rows.pop()
        samples = read_audio(data / row.file)
        runs = active(samples, lowest_hz)
        gaps = [start - end for (_, end), (start, _) in pairwise(runs)]
        if runs and max(gaps, default=0) <= _LONGEST_GAP_S * SAMPLE_RATE:
            yield Clip(row, samples, runs[0][0], runs[-1][1])


def assemble(clips: Sequence[Clip], rng: np.random.Generator, *, whole: bool = False) -> tuple[Waveform, Places]:
    """The recording, and where the active speech of each clip is.

    Args:
        clips: in this order.
        rng: of the pauses.
        whole: keep what clips have before and after their active speech, as far as it fits into the pauses.
    """
    parts: list[Waveform] = [np.zeros(SAMPLE_RATE, np.float32)]
    places: list[tuple[float, float]] = []
    at = SAMPLE_RATE
    for clip in clips:
        room = int(rng.uniform(*_PAUSE_S) * SAMPLE_RATE) // 2
        kept = room - SAMPLE_RATE // 20 if whole else 0
        before, after = min(clip.start, kept), min(len(clip.samples) - clip.end, kept)
        part = np.zeros(2 * room + clip.end - clip.start, np.float32)
        part[room - before : room + clip.end - clip.start + after] = clip.samples[
            clip.start - before : clip.end + after
        ]
        places.append(((at + room) / SAMPLE_RATE, (at + room + clip.end - clip.start) / SAMPLE_RATE))
        parts.append(part)
        at += len(part)
    return np.concatenate([*parts, np.zeros(SAMPLE_RATE, np.float32)]), places


def levelled(clips: Sequence[Clip], rng: np.random.Generator) -> list[Clip]:
    """The clips with active speech at -26 dBFS, give or take 6 dB, so that one noise has about one ratio to all."""
    found = []
    for clip in clips:
        speech = np.concatenate([clip.samples[start:end] for start, end in active(clip.samples)])
        gain = 10 ** ((-26 + rng.uniform(-6, 6)) / 20) / float(np.sqrt(np.mean(speech.astype(np.float64) ** 2)))
        found.append(Clip(clip.row, (gain * clip.samples).astype(np.float32), clip.start, clip.end))
    return found


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


def score(places: Places, found: Places) -> Found:
    """How well utterances at `places` were found."""
    ends = np.array(found).reshape(-1, 2)
    hits, cut, short = 0, 0, 0
    for start, end in places:
        hits += bool((np.abs(ends - (start, end)) <= TOLERANCE_S).all(axis=1).any())
        shared = ends[np.minimum(ends[:, 1], end) - np.maximum(ends[:, 0], start) > SHARED_S]
        cut += len(shared) > 1
        missing = len(shared) == 1 and (shared[0, 0] > start + TOLERANCE_S or shared[0, 1] < end - TOLERANCE_S)
        short += missing or not len(shared)
    return Found(hits / len(places), cut, short, len(ends))


def write(path: Path, samples: Waveform) -> None:
    """Encodes a recording by the ending of its name: m4a (AAC), mp3, or what libsndfile writes."""
    if path.suffix not in (".m4a", ".mp3"):
        soundfile.write(path, samples, SAMPLE_RATE)
        return
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac" if path.suffix == ".m4a" else "libmp3lame", rate=SAMPLE_RATE)
        stream.layout = "mono"
        for start in range(0, len(samples), SAMPLE_RATE):
            frame = av.AudioFrame.from_ndarray(samples[None, start : start + SAMPLE_RATE], "fltp", "mono")
            frame.sample_rate, frame.pts = SAMPLE_RATE, start
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def cuts_of(path: Path) -> Places:
    """Where a recording is cut."""
    return [(cut.start_s, cut.end_s) for cut in open_recording(path, window_s=WINDOW_S, pauses="always").cuts]


def baseline(path: Path) -> Places:
    """Where `librosa.effects.split` cuts it."""
    import librosa

    samples: npt.NDArray[np.float32] = read_audio(path)
    joined: list[list[float]] = []
    for start, end in librosa.effects.split(samples, top_db=45) / SAMPLE_RATE:
        if joined and start - joined[-1][1] < _LONGEST_GAP_S:
            joined[-1][1] = float(end)
        else:
            joined.append([float(start), float(end)])
    return [(start, end) for start, end in joined]


def variants(clips: Sequence[Clip], seed: int) -> Iterator[tuple[str, str, Waveform, Places]]:
    """Name, ending, samples and utterances of each form of the recording."""

    def rng() -> np.random.Generator:
        return np.random.default_rng(seed)

    plain, places = assemble(clips, rng())
    for suffix in (".flac", ".m4a", ".mp3"):
        yield f"silence between, {suffix[1:]}", suffix, plain, places
    yield "whole clips", ".flac", *assemble(clips, rng(), whole=True)
    level, spoken = assemble(levelled(clips, rng()), rng())
    for colour in ("white", "pink"):
        yield f"{colour} noise at {NOISE_DB:g} dB", ".flac", with_noise(level, spoken, colour, rng()), spoken


def captioned(captioner: Captioner, files: Sequence[InputFile]) -> list[Transcript]:
    """The transcripts of recordings, captioned as by `specdec batch`."""
    lines: list[Transcript] = []

    def deliver(outcome: Outcome) -> None:
        lines.extend(outcome.lines)

    LocalBackend(captioner, batch_size=None, workers=2).run(map(Task, files), deliver, lambda: False)
    return lines


@dataclass(frozen=True, slots=True)
class Captioned:
    """A recording, captioned as a whole and clip by clip.

    Attributes:
        rows: the labels of its clips.
        alone, within: captions of the clips themselves, and of the pieces that hold them.
        pieces: captions of the recording.
        speed: its length / the time that it took.
    """

    rows: Sequence[Row]
    alone: Sequence[str]
    within: Sequence[str]
    pieces: int
    speed: float


def caption(captioner: Captioner, clips: Sequence[Clip], path: Path, places: Places, folder: Path) -> Captioned:
    """Captions a recording, and the clips that it is made of."""
    files = [InputFile(str(folder / f"{index:03d}.wav"), id=str(index)) for index in range(len(clips))]
    for file, clip in zip(files, clips, strict=True):
        soundfile.write(file.path, clip.samples, SAMPLE_RATE, "FLOAT")
    alone = {int(line.id or 0): line.caption or "" for line in captioned(captioner, files)}
    began = time.perf_counter()
    pieces = [line for line in captioned(captioner, [InputFile(str(path))]) if line.caption]
    took_s = time.perf_counter() - began
    in_it: list[str] = []
    for start, end in places:
        shared = [min(p.end_s or 0, end) - max(p.start_s or 0, start) for p in pieces]
        in_it.append(pieces[int(np.argmax(shared))].caption or "" if max(shared) > 0 else "")
    rows, duration_s = [clip.row for clip in clips], soundfile.info(path).duration
    return Captioned(rows, [alone[index] for index in range(len(clips))], in_it, len(pieces), duration_s / took_s)


def accuracies(found: Sequence[Captioned], language: Language) -> dict[str, dict[str, float]]:
    """Per cent of right classes by attribute, alone and within the recordings; calm counts as neutral.

    `error` is the standard error of the difference, over the clips whose class is known, each with itself.
    """
    figures: dict[str, dict[str, float]] = {}
    means = []
    for name in ("emotion", *PROSODY):
        right = np.array(
            [
                [attribute_accuracy([Scored(row, language, "default", text)], name) for text in texts]
                for one in found
                for row, *texts in zip(one.rows, one.alone, one.within, strict=True)
                if name in row.classes
            ]
        )
        change = right[:, 1] - right[:, 0]
        error = float(change.std(ddof=1) / np.sqrt(len(change)))
        alone, within = right.mean(axis=0)
        figures[name] = {"alone": alone, "within": within, "error": error, "clips": len(right)}
        means += [(alone, within)] if name != "emotion" else []
    alone, within = np.mean(means, axis=0)
    figures["mean of prosody"] = {"alone": alone, "within": within}
    return {name: {key: round(float(value), 1) for key, value in each.items()} for name, each in figures.items()}


def main(
    data: Annotated[Path, typer.Option(help="Folder with labels.tsv and the clips.")],
    clips: Annotated[int, typer.Option(min=1, help="How many a recording is made of.")] = 180,
    recordings: Annotated[int, typer.Option(min=1, help="How many are made, each of other clips.")] = 1,
    seed: Annotated[int, typer.Option(help="Of the choice of clips and of the pauses.")] = 0,
    lowest_hz: Annotated[float, typer.Option(min=0, help="Below this nothing counts as speech.")] = LOWEST_HZ,
    captions: Annotated[bool, typer.Option("--captions", help="Caption them too.")] = False,
    language: Annotated[str, typer.Option(help="Of the captions.")] = "en",
    threads: Annotated[int | None, typer.Option(min=1, help="Of PyTorch.")] = None,
    write_to: Annotated[Path | None, typer.Option("--write", help="Write the first recording here, and stop.")] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Write it so many times over.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print what was measured as JSON.")] = False,
) -> None:
    """Make long recordings of labelled clips, and measure how their utterances are found and captioned."""
    every = choose(data, clips * recordings, np.random.default_rng(seed), lowest_hz)
    groups = [every[at : at + clips] for at in range(0, len(every), clips)]
    if write_to is not None:
        write(write_to, np.tile(assemble(groups[0], np.random.default_rng(seed))[0], repeat))
        return
    found: dict[str, list[Found]] = defaultdict(list)
    captioned_: list[Captioned] = []
    settings: dict[str, object] = {"prompt.language": language, "runtime.threads": threads}
    captioner = Captioner.load("mini", settings) if captions else None
    with tempfile.TemporaryDirectory(prefix="long-recording-") as name:
        folder = Path(name)
        ways: dict[str, Callable[[Path], Places]] = {"pauses": cuts_of, "effects.split": baseline}
        for group in groups:
            for title, suffix, samples, places in variants(group, seed):
                path = folder / f"long{suffix}"
                write(path, samples)
                for way, find in ways.items():
                    if way == "pauses" or suffix == ".flac":
                        found[f"{title}: {way}"].append(score(places, find(path)))
            if captioner is not None:
                samples, places = assemble(group, np.random.default_rng(seed), whole=True)
                write(folder / "captioned.flac", samples)
                captioned_.append(caption(captioner, group, folder / "captioned.flac", places, folder))
    result: dict[str, Any] = {
        title: {
            "share": float(np.mean([each.share for each in of])),
            **{name: sum(getattr(each, name) for each in of) for name in ("cut", "short", "pieces")},
        }
        for title, of in found.items()
    }
    if captioner is not None:
        result["captions"] = {
            **accuracies(captioned_, captioner.setup.language),
            "captions": sum(each.pieces for each in captioned_),
            "times real time": [round(each.speed, 1) for each in captioned_],
            "peak MiB": peak_rss_mb(),
        }
    if json:
        print(dumps(result))
        return
    rows = [
        [title, f"{100 * v['share']:.1f}%", *(str(v[name]) for name in ("cut", "short", "pieces"))]
        for title, v in result.items()
        if "share" in v
    ]
    print_table(f"{len(every)} utterances", ["", "found", "cut in two", "end missing", "pieces"], rows)
    if captioner is not None:
        print(dumps(result["captions"], indent=1))


if __name__ == "__main__":
    typer.run(main)
