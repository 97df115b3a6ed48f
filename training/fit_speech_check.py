"""Fit the speech check: `python -m training.fit_speech_check --data DIR`.

Fits the logistic model of `specdec_cli/audio/speech.py` to synthetic sounds and to clips of half of the training
speakers, as they are and degraded. It prints the constants for that module, and how much of everything else they mark
as no speech: other sounds of each kind, and every clip of each corpus. Speakers for development and the corpora that
are for evaluation only have no part in the fit. About five minutes on one core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import numpy.typing as npt
import typer
from rich.console import Console

from specdec_cli.audio.speech import figures, in_pieces, terms
from training.corpus import SAMPLE_RATE, Waveform, read_audio
from training.labels import Row, read_rows, training_rows
from training.sounds import PURE, Random, mixed, sound

Numbers = npt.NDArray[np.float64]
MARGIN: Final = 3.0
"""Log odds in favour of speech: captioning a sound costs less than losing a caption."""
UNSEEN: Final = 1_000_000
"""Seeds from here on are of sounds that have no part in the fit."""


@dataclass(frozen=True)
class Fitted:
    """Constants of the speech check.

    `model` [11, 6]: least, most, mean, spread, weight of a figure and of its square.
    """

    bias: float
    model: Numbers

    def source(self) -> str:
        """The constants as they stand in the module."""
        rows = "".join(f"        ({', '.join(f'{value:.4g}' for value in row)}),\n" for row in self.model)
        return f"_BIAS: Final = {self.bias:.4g}\n_MODEL: Final = np.array(\n    [\n{rows}    ]\n)"

    def marks(self, samples: Waveform) -> bool:
        """Whether no ten seconds of a clip sound like speech."""
        found = [figures(piece, SAMPLE_RATE) for piece in in_pieces(samples, SAMPLE_RATE)]
        columns, weights = self.model[:, :4].T, self.model[:, 4:].T.ravel()
        return not any(self.bias + terms(piece, *columns) @ weights > 0 for piece in found if piece is not None)


def fit(speech: Numbers, other: Numbers) -> Fitted:
    """Fit the constants to figures [pieces, 11] of speech and of other sounds.

    Figures are clipped to the range of speech and half of it on either side, so that none counts without bound.
    """
    from sklearn.linear_model import LogisticRegression

    low, high = np.percentile(speech, [0.1, 99.9], axis=0)
    columns = low - (high - low) / 2, high + (high - low) / 2, speech.mean(axis=0), speech.std(axis=0)
    found, truth = np.concatenate([speech, other]), np.repeat([1, 0], [len(speech), len(other)])
    model = LogisticRegression(max_iter=3000, class_weight="balanced").fit(terms(found, *columns), truth)
    return Fitted(float(model.intercept_[0]) + MARGIN, np.column_stack([*columns, *np.split(model.coef_[0], 2)]))


def all_figures(clips: Iterable[Waveform]) -> Numbers:
    """Figures [pieces, 11] of clips, without pieces of less than 0.3 s of sound."""
    found = [figures(piece, SAMPLE_RATE) for clip in clips for piece in in_pieces(clip, SAMPLE_RATE)]
    return np.array([piece for piece in found if piece is not None])


def degraded(random: Random, clip: npt.NDArray[Any]) -> Waveform:
    """A clip with white or pink noise 15 to 35 dB below it, with echo, or in the band of a telephone."""
    kind = random.integers(3)
    if kind == 0:
        shape = np.fft.rfft(random.standard_normal(len(clip)))
        noise = np.fft.irfft(shape / np.arange(1, len(shape) + 1) ** (random.integers(2) / 2), len(clip))
        clip = clip + noise / noise.std() * clip.std() * 10 ** (-random.uniform(15, 35) / 20)
    elif kind == 1:
        echo_s = random.uniform(0.1, 0.6)
        time = np.arange(int(echo_s * SAMPLE_RATE)) / SAMPLE_RATE
        echo = random.standard_normal(len(time)) * 10 ** (-3 * time / echo_s) * random.uniform(0.02, 0.15)
        echo[0] = 1.0
        size = len(clip) + len(echo)
        clip = np.fft.irfft(np.fft.rfft(clip, size) * np.fft.rfft(echo, size), size)[: len(clip)]
    else:
        at_hz, spectrum = np.fft.rfftfreq(len(clip), 1 / SAMPLE_RATE), np.fft.rfft(clip)
        clip = np.fft.irfft(np.where((at_hz > 300) & (at_hz < 3400), spectrum, 0), len(clip))
    return clip.astype(np.float32)


def fitting_rows(rows: Sequence[Row]) -> list[Row]:
    """Clips of every other training speaker."""
    known = training_rows(rows)
    speakers = sorted({row.speaker for row in known})[::2]
    return [row for row in known if row.speaker in speakers]


def sounds(kind: Callable[..., Any], count: int, first: int) -> Iterable[Waveform]:
    """`count` sounds of a kind."""
    return (sound(kind, seed) for seed in range(first, first + count))


def main(
    data: Annotated[Path, typer.Option(help="Folder with labels.tsv and the clips.")],
    clips: Annotated[
        int, typer.Option(help="Clips of speech to fit to, and as many others to degrade and count.")
    ] = 3000,
    each: Annotated[int, typer.Option(help="Sounds of each kind to fit to, and as many others to count.")] = 200,
) -> None:
    """Fit the speech check and count what it marks."""
    random, console = np.random.default_rng(0), Console()
    rows = read_rows(data)
    known = fitting_rows(rows)
    chosen = [known[at] for at in random.permutation(len(known))[:clips]]
    whole = (read_audio(data / row.file) for row in chosen)
    speech = all_figures(one for clip in whole for one in (clip, degraded(random, clip)))
    kinds = (*PURE, mixed)
    fitted = fit(speech, np.concatenate([all_figures(sounds(kind, each, first=0)) for kind in kinds]))
    console.print(fitted.source(), markup=False, highlight=False, soft_wrap=True)
    for kind in kinds:
        count = sum(fitted.marks(one) for one in sounds(kind, each, first=UNSEEN))
        console.print(f"{kind.__name__}: {count} of {each}")
    speakers = {row.speaker for row in known}
    others = [row for row in rows if row.speaker not in speakers]
    marked = {row.file for row in rows if fitted.marks(read_audio(data / row.file))}
    for corpus in sorted({row.corpus for row in rows}):
        of_all, of_others = ([row.file for row in part if row.corpus == corpus] for part in (rows, others))
        unseen = f"{len(marked.intersection(of_others))} of {len(of_others)}"
        console.print(f"{corpus}: {len(marked.intersection(of_all))} of {len(of_all)}; of other speakers {unseen}")
    worse = [others[at] for at in random.permutation(len(others))[:clips]]
    count = sum(fitted.marks(degraded(random, read_audio(data / row.file))) for row in worse)
    console.print(f"degraded clips of other speakers: {count} of {len(worse)}")


if __name__ == "__main__":
    typer.run(main)
