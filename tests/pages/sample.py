"""A comparison to report on: what the shipped pair says of generated voices, with figures written out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from specdec_cli.evaluate.bootstrap import Interval
from specdec_cli.evaluate.frontier import AtCost, OracleCurve
from specdec_cli.evaluate.result import (
    ClipComparison,
    CloudAgreement,
    Comparison,
    EmotionWords,
    Figure,
    Gap,
    LabelQuality,
    ModeFigures,
    ModeQuality,
    Process,
    TextQuality,
)
from specdec_cli.transcript import Transcript
from specdec_cli.types import COSTS, Cost, Mode
from tests.mini_pair import captioner, write_voice

MODES: tuple[Mode, ...] = ("edge", "hybrid", "lossless", "cloud")
Runs = dict[Mode, list[Transcript]]


def runs_over(files: Sequence[Path], language: Literal["zh", "en"] = "en") -> Runs:
    """Each mode's transcripts of `files`; the hybrid asks at times, and lossless takes several rounds."""
    settings: dict[Mode, dict[str, object]] = {"hybrid": {"gate__threshold": 0.4}, "lossless": {"decoding__k": 2}}
    runs: Runs = {}
    for mode in MODES:
        use = captioner(decoding__mode=mode, prompt__language=language, **settings.get(mode, {}))
        runs[mode] = [use.caption(file) for file in files]
    return runs


def voices(folder: Path, count: int) -> list[Path]:
    """Generated voices as files."""
    return [write_voice(folder / f"voice {seed}.wav", seed, 1.2 + 0.3 * seed) for seed in range(count)]


def comparison(runs: Runs, **changes: object) -> Comparison:
    """A comparison of `runs`: their captions and times, and invented figures."""
    some = next(iter(runs.values()))[0]
    modes = list(runs)
    clips = [_clip(runs, index) for index in range(len(runs[modes[0]]))]
    found = Comparison(
        headline=[
            "hybrid closes 71% of the gap [42%, 95%] with 14.2% of the blocks escalated.",
            "It takes 2.64 times as long as edge-only.",
        ],
        modes=modes,
        language=some.language,
        prompt=some.prompt,
        models=runs[modes[-2]][0].models,
        settings=runs["hybrid"][0].settings,
        clips=clips,
        planned=len(clips),
        unfinished=0,
        audio_s=sum(clip.duration_s or 0.0 for clip in clips),
        repeats=1,
        unstable=[],
        errors=[],
        costs=[_costs(mode, index) for index, mode in enumerate(modes)],
        process=Process(peak_rss_mb=612.5, gpu_mb=None, load_s=1.2),
        quality=[_quality(mode) for mode in modes],
        gaps=[_gap("hybrid", 0.71), _gap("lossless", 1.0)],
        attributes=["voice", "rate", "emotion"],
        references_found=len(clips),
        resamples=2000,
        level=0.95,
        seed=0,
    )
    return found.model_copy(update=changes)


def _clip(runs: Runs, index: int) -> ClipComparison:
    of = {mode: transcripts[index] for mode, transcripts in runs.items()}
    one = next(iter(of.values()))
    return ClipComparison(
        file=one.file,
        sha256=one.sha256 or "",
        duration_s=one.duration_s,
        start_s=one.start_s,
        end_s=one.end_s,
        captions={mode: transcript.caption or "" for mode, transcript in of.items()},
        labels={mode: {"voice": "male", "rate": "fast" if mode == "edge" else "slow", "emotion": None} for mode in of},
        emotions={mode: ["calm"] for mode in of},
        total_ms={mode: transcript.timing.total_ms or 0.0 for mode, transcript in of.items()},
        escalation_rate={mode: t.totals.escalation_rate if t.totals else None for mode, t in of.items()},
        reference=f"clip {index}",
        reference_texts=["A calm man speaks slowly." if one.language == "en" else "一位男士平静地慢慢说话。"],
        reference_labels={"voice": "male", "rate": "slow", "emotion": "neutral"},
    )


def _curve(cost: Cost) -> OracleCurve:
    most = {"blocks": 0.08, "clips": 0.35, "time": 0.3}[cost]
    return OracleCurve(cost=cost, points=[(most * step / 4, 1.6 * (step / 4) ** 0.5) for step in range(5)])


def _spread(value: float) -> Interval:
    return Interval(value=value, low=0.9 * value, high=1.1 * value)


def _costs(mode: Mode, index: int) -> ModeFigures:
    ratio = None if mode == "edge" else _spread(1.0 + 0.8 * index)
    alone = mode in ("edge", "cloud")
    figure = Figure(value=12.345 * (1 + index), to_edge=ratio)
    return ModeFigures(
        mode=mode,
        total_s=figure,
        ttft_ms=figure,
        tokens_per_s=figure,
        tokens=Figure(value=1234.0),
        forwards_edge=Figure(value=None if mode == "cloud" else 1000.0),
        forwards_cloud=Figure(value=None if mode == "edge" else 100.0),
        cloud_calls=None if alone else 17,
        rounds=120,
        escalation_rate=None if alone else _spread(0.142 if mode == "hybrid" else 1.0),
        clips_woken=None if alone else _spread(0.61 if mode == "hybrid" else 1.0),
        cloud_time=None if alone else _spread(0.43 if mode == "hybrid" else 0.82),
        edge_token_share=_spread({"edge": 1.0, "hybrid": 0.985, "lossless": 0.827, "cloud": 0.0}[mode]),
        acceptance_rate=None if alone else _spread(0.654),
        uplink_bytes=0,
        cpu_s=figure,
    )


def _quality(mode: Mode) -> ModeQuality:
    counts = {"slow": {"slow": 7, "fast": 2, "none": 1}, "fast": {"slow": 3, "fast": 8, "none": 0}}
    label = LabelQuality(clips=21, accuracy=_spread(0.714), macro_f1=0.702, majority=0.524, confusion=counts)
    third = Interval(0.33, 0.2, 0.5)
    words = EmotionWords(clips=3, precision=third, recall=third, mean=third)
    agreement = CloudAgreement(
        exact=0.5,
        chrf=81.2,
        labels={"voice": 0.95, "emotion": None},
        emotions=words,
        label_mean=_spread(0.8),
    )
    return ModeQuality(
        mode=mode,
        agreement=None if mode == "cloud" else agreement,
        text=TextQuality(
            clips=21, bleu_1=41.0, bleu_2=30.0, bleu_3=21.0, bleu_4=14.9, chrf=44.0, rouge_l=38.2, bertscore=None
        ),
        labels={"rate": label},
        emotions=words,
        label_mean=_spread(0.714),
    )


def _gap(mode: Mode, closed: float) -> Gap:
    return Gap(
        mode=mode,
        basis="references",
        measure="labels",
        clips=21,
        edge=0.62,
        value=0.62 + 0.12 * closed,
        cloud=0.74,
        gap=_spread(0.12),
        gain=_spread(0.12 * closed),
        closed=_spread(closed),
        at_costs=[_at(cost, spent, closed) for cost, spent in (("blocks", 0.142), ("clips", 0.61), ("time", 0.43))],
        oracle=[_curve(cost) for cost in COSTS],
    )


def _at(cost: Cost, spent: float, closed: float) -> AtCost:
    share = min(spent * closed / 0.71, 1.0)
    return AtCost(cost=cost, spent=_spread(share), above_random=_spread(closed - share), oracle=_spread(1.3))
