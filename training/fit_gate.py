"""Fit the mini pair's gate: `python -m training.fit_gate --data DIR`.

On clips of dev speakers, in both languages: the pair knows its training speakers by heart, and report speakers and the
corpora that are for evaluation only have no part in it. Two classifiers are fitted to what the cloud's tokens improve
in the classes of a caption: one for blocks, and one that decides about waking the cloud, in which emotion counts
more. Every figure and both thresholds come from classifiers that were fitted without the speaker at hand. Every clip is
recorded once with both models, and a second run with the same weights goes on from the recordings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, get_args

import numpy as np
import torch
import typer
from rich.console import Console
from sklearn.model_selection import GroupKFold

from specdec_cli import __version__
from specdec_cli.captioner import Captioner
from specdec_cli.config import load_config
from specdec_cli.config.gate_file import Combination, GateFile, LearnedWeights, tokenizer_fingerprint
from specdec_cli.console.view import choose_view
from specdec_cli.decoding.gate import Gate
from specdec_cli.decoding.learned import Classifier
from specdec_cli.decoding.length import MOST_DEFERRED
from specdec_cli.journal import Watch
from specdec_cli.labels import Lexicon
from specdec_cli.labels.grounding import Grounding
from specdec_cli.labels.references import Reference
from specdec_cli.prompts import Language
from specdec_cli.stats import Values, mean
from specdec_cli.tune.learned_gate import Consequences, examples, fit
from specdec_cli.tune.outcomes import CaptionQuality
from specdec_cli.tune.recording import StoredRecordings, Trace, Track, setup_of, sound_of
from specdec_cli.tune.replay import Replayed, replay
from training import WEIGHTS
from training.labels import Row, balanced, dev_rows, read_rows
from training.references import classes_of

LANGUAGES: Final[tuple[Language, ...]] = ("zh", "en")
SHARES: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
"""Shares of the clips that figures are given for."""

THRESHOLDS: Final = (0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.3)
"""Probabilities of a change at which a block may be escalated once the cloud is awake."""

FOLDS: Final = 5
TOLERANCE: Final = 0.01
"""Part of the gap that fewer calls may cost."""


@dataclass(frozen=True, slots=True)
class Part:
    """The recordings of one language, and the quality of captions in it."""

    traces: list[Trace]
    quality: CaptionQuality
    speakers: list[str]
    right: list[Mapping[str, str]]
    sounds: list[Grounding | None]


@dataclass(frozen=True, slots=True)
class Fold:
    """The clips of some speakers, (language, index) each, and weights that were fitted without them."""

    clips: list[tuple[Language, int]]
    block: LearnedWeights
    wake: LearnedWeights

    @property
    def classifier(self) -> Classifier:
        """The classifier of both weights."""
        return Classifier(self.block, self.wake)


def recorded(captioner: Captioner, data: Path, rows: Sequence[Row], work: Path, watch: Watch) -> dict[Language, Part]:
    """Recordings of `rows` in each language."""
    clips = {hashlib.sha256((data / row.file).read_bytes()).hexdigest(): str(data / row.file) for row in rows}
    named = {str(data / row.file): row for row in rows}
    found: dict[Language, Part] = {}
    of_pair = hashlib.sha256(repr(captioner.setup.models.weights).encode()).hexdigest()[:16]
    for language in LANGUAGES:
        prompt = captioner.config.prompt.model_copy(update={"language": language})
        speaking = captioner.variant(captioner.config.model_copy(update={"prompt": prompt}))
        with StoredRecordings(setup_of(speaking), work / f"gate-{of_pair}-{language}.jsonl") as journal:
            traces = journal.record(speaking, clips, watch)
        known = {t.sha256: named[t.file] for t in traces}
        references = {sha256: Reference(row.file, (), classes_of(row), row.speaker) for sha256, row in known.items()}
        quality = CaptionQuality(Lexicon.load(), references, language, captioner.decode)
        found[language] = Part(
            traces,
            quality,
            speakers=[known[trace.sha256].speaker for trace in traces],
            right=[classes_of(known[trace.sha256]) for trace in traces],
            sounds=[sound_of(trace, speaking) for trace in traces],
        )
    return found


class Improvements(Consequences):
    """What a token of the cloud's improves: a class that is right only with it, or one of which nobody knows better.

    A token that the sound overrules (`Grounding.stands`) changes nothing.

    Args:
        part: gives the classes of texts.
        right: attribute -> the right class of the clip.
        sound: what the claims of its captions are set against.
        weights: as in `Consequences`.
    """

    def __init__(
        self, part: Part, right: Mapping[str, str], sound: Grounding | None, weights: Mapping[str, float]
    ) -> None:
        super().__init__(part.quality.classes, weights)
        self._right, self._sound = right, sound

    def _changed(self, track: Track, position: int, token: int) -> list[str]:
        changed = super()._changed(track, position, token)
        before, after = track.ids[:position], track.ids[position + 1 :]
        drafted = (*before, track.edge[position].id, *after)
        if changed and self._sound is not None and self._sound.stands((), drafted, position, token):
            return []
        named = self._classes((*before, token, *after))
        return [name for name in changed if name not in self._right or named.get(name) == self._right[name]]


class Fitting:
    """Both classifiers, from clips of all languages or of some of them.

    Args:
        parts: the recordings.
        weights: attribute -> how much an improvement of its class counts for waking the cloud.
        seed: of the folds within.
    """

    def __init__(self, parts: Mapping[Language, Part], weights: Mapping[str, float], seed: int) -> None:
        self._seed = seed
        names = sorted({speaker for part in parts.values() for speaker in part.speakers})
        self._found: dict[str, list[Any]] = {"block": [], "wake": []}
        self._decided: dict[int, str] = {}
        for part in parts.values():
            groups = [names.index(speaker) for speaker in part.speakers]
            self._decided |= Consequences(part.quality.classes).decided(part.traces)
            clips = zip(part.traces, groups, part.right, part.sounds, strict=True)
            for trace, group, right, sound in clips:
                for what, counted in (("block", {}), ("wake", weights)):
                    improved = Improvements(part, right, sound, counted)
                    self._found[what] += examples([trace], [group], improved)
        self._names = names

    def fitted(self, without: Sequence[str] = ()) -> tuple[LearnedWeights, LearnedWeights]:
        """Weights for blocks and for waking, fitted without some speakers."""
        left_out = {self._names.index(speaker) for speaker in without}
        fits = {
            what: fit([e for e in found if e.group not in left_out], self._decided, seed=self._seed)
            for what, found in self._found.items()
        }
        return fits["block"], fits["wake"]


def folds_of(parts: Mapping[Language, Part], fitting: Fitting) -> list[Fold]:
    """Every clip in one fold, speakers kept together."""
    clips = [(language, at) for language, part in parts.items() for at in range(len(part.traces))]
    speakers = [parts[language].speakers[at] for language, at in clips]
    folds = []
    for _, test in GroupKFold(min(FOLDS, len(set(speakers)))).split(clips, groups=speakers):
        block, wake = fitting.fitted(without=sorted({speakers[at] for at in test}))
        folds.append(Fold([clips[at] for at in test], block, wake))
    return folds


class Frontier:
    """What gates would do with the clips, each judged without its speaker, and how much of the gap that closes."""

    def __init__(self, parts: Mapping[Language, Part], folds: Sequence[Fold]) -> None:
        self._parts, self._folds = parts, folds
        self.alone = self._quality(
            {(la, at): p.traces[at].edge.ids for la, p in parts.items() for at in range(len(p.traces))}
        )
        self.cloud = self._quality(
            {(la, at): p.traces[at].cloud.ids for la, p in parts.items() for at in range(len(p.traces))}
        )

    @property
    def combination(self) -> Combination:
        """How the figures of a draft's tokens make one, in waking."""
        return self._folds[0].wake.combination

    def wake_figures(self, name: Any) -> Values:
        """What a gate finds of each clip's whole draft; of one that contradicts the sound, that it surely escalates."""
        found = []
        for fold in self._folds:
            gate = Gate(name, 0.0, classifier=fold.classifier)
            for language, at in fold.clips:
                part, judge = self._parts[language], gate.open(0, waking=True, whole=True)
                draft = part.traces[at].edge.edge[:MOST_DEFERRED]
                for token in draft:
                    judge.add(token)
                sound = part.sounds[at]
                wrong = sound is not None and sound.contradicts((), [token.id for token in draft])
                surely = -np.inf if name == "margin" else np.inf
                found.append(surely if wrong else judge.block_value)
        return np.array(found)

    def run(self, name: Any, threshold: float, wake: float) -> dict[str, float]:
        """A gate with deferred drafts: shares of the gap closed, of clips that wake the cloud, and calls a clip."""
        found: dict[tuple[Language, int], Replayed] = {}
        for fold in self._folds:
            gate = Gate(name, threshold, wake=wake, classifier=fold.classifier)
            found |= {
                (language, at): replay(
                    self._parts[language].traces[at], gate, 1, defer=True, sound=self._parts[language].sounds[at]
                )
                for language, at in fold.clips
            }
        quality = self._quality({clip: replayed.ids for clip, replayed in found.items()})
        calls = np.array([replayed.escalations for replayed in found.values()], float)
        gaps = {what: (quality[what] - self.alone[what]) / (self.cloud[what] - self.alone[what]) for what in quality}
        return {
            **{f"{what}_gap_closed": round(gap, 4) for what, gap in gaps.items()},
            "clips_that_wake_the_cloud": round(float((calls > 0).mean()), 4),
            **{
                f"clips_that_wake_the_cloud_{language}": round(
                    float(np.mean([found[language, at].escalations > 0 for at in range(len(part.traces))])), 4
                )
                for language, part in self._parts.items()
            },
            "calls_per_clip": round(float(calls.mean()), 4),
        }

    def _quality(self, texts: Mapping[tuple[Language, int], tuple[int, ...]]) -> dict[str, float]:
        """Mean over the languages of the mean over attributes, and of emotion alone."""
        means: dict[str, list[float]] = {"mean": [], "emotion": []}
        for language, part in self._parts.items():
            table = part.quality.table(part.traces, [texts[language, at] for at in range(len(part.traces))])
            means["mean"].append(float(mean(table)(np.ones(len(table)))))
            emotion = table[:, list(Lexicon.load().attributes).index("emotion")]
            means["emotion"].append(float(np.nanmean(emotion)))
        return {name: float(np.mean(values)) for name, values in means.items()}


def _ordered(
    parts: Mapping[Language, Part], folds: Sequence[Fold], share: float, emotion: float
) -> tuple[Frontier, Values, float]:
    """The way to combine a draft's tokens whose order of the clips closes most where `share` of them wake the cloud.

    The gap of emotion counts `emotion` times as much as that of the mean, as improvements of it do in the fit.

    Returns:
        With it: the frontier, what the gate finds of each clip, and the threshold at that share.
    """
    found = []
    for combination in get_args(Combination):
        waking = [fold.wake.model_copy(update={"combination": combination}) for fold in folds]
        frontier = Frontier(parts, [replace(fold, wake=each) for fold, each in zip(folds, waking, strict=True)])
        figures = frontier.wake_figures("learned")
        wake = float(np.quantile(figures, 1 - share))
        closed = frontier.run("learned", THRESHOLDS[-1], wake)
        gain = emotion * closed["emotion_gap_closed"] + closed["mean_gap_closed"]
        found.append((gain, frontier, figures, wake))
    return max(found, key=lambda each: each[0])[1:]


def fitted_gate(
    captioner: Captioner, parts: dict[Language, Part], k: int, share: float, weights: Mapping[str, float], seed: int
) -> tuple[GateFile, dict[str, Any]]:
    """The gate file, and the figures that it was chosen by."""
    tokenizer = tokenizer_fingerprint(captioner.pair.writer.tokenizer.get_vocab())
    fitting = Fitting(parts, weights, seed)
    frontier, figures, wake = _ordered(parts, folds_of(parts, fitting), share, weights.get("emotion", 1.0))
    tried = {threshold: frontier.run("learned", threshold, wake) for threshold in THRESHOLDS}
    enough = tried[THRESHOLDS[0]]["mean_gap_closed"] - TOLERANCE
    threshold = max(t for t, found in tried.items() if found["mean_gap_closed"] >= enough)
    compared: dict[str, dict[str, Any]] = {}
    for name, low in (("learned", threshold), ("entropy", 0.3), ("margin", 0.85)):
        found = figures if name == "learned" else frontier.wake_figures(name)
        at = {part: float(np.quantile(found, part if name == "margin" else 1 - part)) for part in SHARES}
        compared[name] = {
            f"{part:.0%}": {"wake": round(point, 4), **frontier.run(name, low, point)} for part, point in at.items()
        }
    block, waking = fitting.fitted()
    waking = waking.model_copy(update={"combination": frontier.combination})
    wake = round(wake, 4)
    origin = {
        "specdec": __version__,
        "edge": captioner.config.edge.model if captioner.config.edge else None,
        "cloud": captioner.config.cloud.label if captioner.config.cloud else None,
        "weights": captioner.setup.models.weights,
        "speakers": "dev speakers, each judged by classifiers that were fitted without it",
        "clips": {language: len(part.traces) for language, part in parts.items()},
        "label": "the cloud's token improves a class that the caption names, and the sound does not overrule it",
        "weights_of_improvements_for_waking": dict(weights),
        "cross_fitted": {
            "shipped": {"threshold": threshold, "wake": wake, **tried[threshold]},
            "by_share_of_clips": compared,
        },
    }
    gate = GateFile(
        gate="learned",
        threshold=threshold,
        k=k,
        stop_drafting=True,
        defer=True,
        wake=wake,
        tokenizer=tokenizer,
        fitted_on=origin,
        learned=block,
        waking=waking,
    )
    return gate, origin


def main(
    data: Annotated[Path, typer.Option(help="Folder with labels.tsv and the clips.")],
    clips: Annotated[int, typer.Option(help="Dev clips at most, the corpora in equal parts as far as they go.")] = 1000,
    k: Annotated[int, typer.Option(help="Tokens drafted per block where drafts are not deferred.")] = 2,
    share: Annotated[float, typer.Option(help="Share of the clips that may wake the cloud, 0 to 1.")] = 0.44,
    emotion: Annotated[float, typer.Option(help="How much a better emotion counts for waking; others: 1.")] = 10.0,
    config: Annotated[str, typer.Option(help="Configuration of the pair, a name or a path.")] = "mini",
    edge: Annotated[str | None, typer.Option(help="Edge checkpoint in place of the configured one.")] = None,
    cloud: Annotated[str | None, typer.Option(help="Cloud checkpoint likewise.")] = None,
    work: Annotated[Path, typer.Option(help="Folder for the recordings.")] = Path("mini-training"),
    output: Annotated[Path, typer.Option(help="Where the gate file goes.")] = WEIGHTS / "gate.json",
    threads: Annotated[int, typer.Option(help="CPU threads.")] = 1,
    seed: Annotated[int, typer.Option(help="Of the choice of clips and the folds.")] = 0,
) -> None:
    """Fit the gate on dev speakers and write it."""
    torch.set_num_threads(threads)
    work.mkdir(parents=True, exist_ok=True)
    watch = choose_view(steps=True)
    models = {"edge.model": edge, "cloud.model": cloud}
    flags = {"gate.name": "entropy", **{name: model for name, model in models.items() if model is not None}}
    captioner = Captioner.load(load_config(config, flags=flags, environ={}).config)
    try:
        parts = recorded(captioner, data, balanced(dev_rows(read_rows(data)), clips, seed), work, watch)
    finally:
        watch.close()
    gate, figures = fitted_gate(captioner, parts, k, share, {"emotion": emotion}, seed)
    output.write_text(gate.to_json(), encoding="utf-8")
    Console().print(figures)


if __name__ == "__main__":
    typer.run(main)
