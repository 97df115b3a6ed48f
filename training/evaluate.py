"""Measure the pair on the dev speakers, and in the end on the report speakers: `python -m training.evaluate`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import typer

from specdec_cli import Captioner
from specdec_cli.prompts import PROMPTS, Language, Style
from training import CLOUD_WEIGHTS, EDGE_WEIGHTS
from training.captions import WORDS, is_well_formed
from training.corpus import SAMPLE_RATE, Waveform, read_audio
from training.labels import EVALUATION_ONLY, PROSODY, Row, dev_rows, read_rows, report_rows
from training.scoring import Scored, attribute_accuracy, majority, summarise

DURATIONS_S: Final = (1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 16.0, 20.0, 25.0, 30.0)
"""Lengths at which well-formedness is measured."""
JOINED: Final = 10
"""Clips of each length."""


def side(folder: Path, language: Language, style: Style = "default") -> Captioner:
    """A side alone, without the sound."""
    settings = {"decoding.mode": "edge", "edge.model": str(folder), "decoding.sound": []}
    return Captioner.load("mini", settings | {"prompt.language": language, "prompt.instruction": style})


def caption_rows(folder: Path, rows: Sequence[Row], data: Path, language: Language) -> list[Scored]:
    """Captions of `rows` by the side in `folder`."""
    captioner = side(folder, language)
    return [Scored(row, language, captioner.caption(data / row.file).caption or "") for row in rows]


def well_formed_by_duration(folder: Path, rows: Sequence[Row], data: Path) -> dict[str, float]:
    """Per cent of well-formed captions (all languages and styles) of joined clips of each length in seconds."""
    rng = np.random.default_rng(5)
    speakers = sorted({row.speaker for row in rows})
    clips: dict[str, list[Waveform]] = {}
    for seconds in DURATIONS_S:
        chosen = clips[f"well-formed at {seconds:g} s, all languages and styles"] = []
        for _ in range(JOINED):
            own = [row for row in rows if row.speaker == speakers[int(rng.integers(len(speakers)))]]
            joined: Waveform = np.zeros(0, dtype=np.float32)
            while len(joined) < seconds * SAMPLE_RATE:
                joined = np.concatenate([joined, read_audio(data / own[int(rng.integers(len(own)))].file)])
            chosen.append(joined[: int(seconds * SAMPLE_RATE)])
    checks: dict[str, list[bool]] = {name: [] for name in clips}
    for language, style in PROMPTS:
        captioner = side(folder, language, style)
        for name, own_clips in clips.items():
            texts = [captioner.run_samples(clip, SAMPLE_RATE).finish().caption or "" for clip in own_clips]
            checks[name] += [is_well_formed(text, language, style) for text in texts]
    return {name: round(100.0 * sum(found) / len(found), 1) for name, found in checks.items()}


def others(folder: Path, rows: Sequence[Row], data: Path) -> dict[str, float | str | None]:
    """Figures of the side in `folder` by length, and on the corpora that are for evaluation only."""
    found: dict[str, float | str | None] = dict(well_formed_by_duration(folder, dev_rows(rows), data))
    for corpus in EVALUATION_ONLY:
        part = [row for row in rows if row.corpus == corpus]
        scored = caption_rows(folder, part, data, "zh")
        for name in (*PROSODY, "emotion"):
            if (constant := majority(part, name)) is not None:
                found[f"{corpus} {name}"] = f"{attribute_accuracy(scored, name)} (majority {constant})"
        found[f"{corpus} well-formed"] = summarise(scored)["well-formed"]
    return found


def main(
    data: Annotated[Path, typer.Option(help="Folder with labels.tsv and the clips.")],
    report: Annotated[bool, typer.Option(help="Report speakers too, when nothing is left to be chosen.")] = False,
    output: Annotated[Path | None, typer.Option(help="Write all figures to this JSON file.")] = None,
) -> None:
    """Accuracy per attribute, emotion per corpus, and well-formedness by duration: tables by column and row."""
    rows, sides = read_rows(data), {"edge": EDGE_WEIGHTS, "cloud": CLOUD_WEIGHTS}
    splits = {"dev speakers": dev_rows(rows)} | ({"report speakers": report_rows(rows)} if report else {})
    results: dict[str, dict[str, Any]] = {}
    for title, part in splits.items():
        results[title] = {
            f"{name} {language}": summarise(caption_rows(folder, part, data, language))
            for name, folder in sides.items()
            for language in WORDS
        }
        results[title]["majority"] = {name: majority(part, name) for name in PROSODY}
    results[""] = {name: others(folder, rows, data) for name, folder in sides.items()}
    text = json.dumps(results, indent=1, ensure_ascii=False)
    print(text)
    if output:
        output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
