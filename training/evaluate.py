"""Measure the pair on the dev speakers, and in the end on the report speakers: `python -m training.evaluate`."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import torch
import typer

from specdec_cli.prompts import Language, Style
from training import CLOUD_WEIGHTS, EDGE_WEIGHTS
from training.captioning import Captioner
from training.captions import is_well_formed
from training.corpus import SAMPLE_RATE, Waveform, read_audio
from training.feature_cache import encode_waveforms
from training.labels import EVALUATION_ONLY, PROSODY, Row, dev_rows, read_rows, report_rows
from training.scoring import DURATIONS_S, Scored, attribute_accuracy, majority, summarise

LANGUAGES: Final[tuple[Language, ...]] = ("zh", "en")
STYLES: Final[tuple[Style, ...]] = ("default", "detailed", "concise")
CONTEXT_TOKENS: Final = 110
"""Cached tokens at which the cost of one decoder step is measured."""


def caption_rows(
    captioner: Captioner, rows: Sequence[Row], read: Callable[[str], Waveform], style: Style = "default"
) -> dict[Language, list[Scored]]:
    """Captions of `rows` in both languages; each clip is encoded once."""
    states = encode_waveforms(captioner.model.model.audio_tower, [read(row.file) for row in rows])
    return {
        language: [
            Scored(row, language, style, text)
            for row, text in zip(rows, captioner.caption_states(states, language, style), strict=True)
        ]
        for language in LANGUAGES
    }


def well_formed_by_duration(
    captioner: Captioner, rows: Sequence[Row], read: Callable[[str], Waveform], per_duration: int = 10
) -> dict[str, float]:
    """Per cent of well-formed captions (all languages and styles) of joined dev clips of each length in seconds."""
    rng = np.random.default_rng(5)
    speakers = sorted({row.speaker for row in rows})
    found: dict[str, float] = {}
    for seconds in DURATIONS_S:
        clips = []
        for _ in range(per_duration):
            own = [row for row in rows if row.speaker == speakers[int(rng.integers(len(speakers)))]]
            joined: Waveform = np.zeros(0, dtype=np.float32)
            while len(joined) < seconds * SAMPLE_RATE:
                joined = np.concatenate([joined, read(own[int(rng.integers(len(own)))].file)])
            clips.append(joined[: int(seconds * SAMPLE_RATE)])
        states = encode_waveforms(captioner.model.model.audio_tower, clips)
        checks = [
            is_well_formed(text, language, style)
            for language in LANGUAGES
            for style in STYLES
            for text in captioner.caption_states(states, language, style)
        ]
        found[f"{seconds:g}"] = round(100.0 * sum(checks) / len(checks), 1)
    return found


@torch.inference_mode()
def step_ms(captioner: Captioner, repeats: int = 60) -> float:
    """Median milliseconds of one decoder step (one token, `CONTEXT_TOKENS` cached), float32, one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        decoder, head = captioner.model.model.language_model, captioner.model.lm_head
        embed = captioner.model.get_input_embeddings()
        cache = decoder(inputs_embeds=embed(torch.zeros(1, CONTEXT_TOKENS, dtype=torch.long))).past_key_values
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            position = torch.full((3, 1, 1), CONTEXT_TOKENS)
            inputs = embed(torch.zeros(1, 1, dtype=torch.long))
            head(decoder(inputs_embeds=inputs, position_ids=position, past_key_values=cache).last_hidden_state)
            times.append((time.perf_counter() - start) * 1000.0)
            cache.crop(-1)
        return round(statistics.median(times[10:]), 2)
    finally:
        torch.set_num_threads(threads)


def evaluate_side(
    captioner: Captioner, rows: Sequence[Row], read: Callable[[str], Waveform], *, report: bool
) -> dict[str, Any]:
    """All figures of one side on the dev speakers, on the corpora that are for evaluation only, and with `report` on
    the report speakers."""
    dev = dev_rows(rows)
    splits = {"dev": dev, "report": report_rows(rows)} if report else {"dev": dev}
    figures: dict[str, Any] = {
        name: {language: summarise(scored) for language, scored in caption_rows(captioner, part, read).items()}
        for name, part in splits.items()
    }
    figures["well_formed_by_duration_s"] = well_formed_by_duration(captioner, dev, read)
    for corpus in EVALUATION_ONLY:
        part = [row for row in rows if row.corpus == corpus]
        if part:
            scored = caption_rows(captioner, part, read)["zh"]
            figures[corpus] = {
                name: {"accuracy": attribute_accuracy(scored, name), "majority": majority(part, name)}
                for name in (*PROSODY, "emotion")
                if majority(part, name) is not None
            }
            figures[corpus]["well_formed"] = summarise(scored)["well_formed"]
    figures["step_ms"] = step_ms(captioner)
    return figures


def main(
    data: Annotated[Path, typer.Option(help="Folder with labels.tsv and the clips.")],
    modes: Annotated[str, typer.Option(help="Comma-separated: edge, cloud.")] = "edge,cloud",
    edge: Annotated[Path, typer.Option(help="Checkpoint of the edge.")] = EDGE_WEIGHTS,
    cloud: Annotated[Path, typer.Option(help="Checkpoint of the cloud.")] = CLOUD_WEIGHTS,
    report: Annotated[bool, typer.Option(help="Report speakers too, when nothing is left to be chosen.")] = False,
    output: Annotated[Path | None, typer.Option(help="Write all figures to this JSON file.")] = None,
) -> None:
    """Accuracy per attribute, emotion per corpus, well-formedness by duration and the cost of a decoder step."""
    rows = read_rows(data)
    folders = {"edge": edge, "cloud": cloud}
    unknown = set(modes.split(",")) - set(folders)
    if unknown:
        raise typer.BadParameter(f"unknown modes: {', '.join(sorted(unknown))}")
    results = {
        mode: evaluate_side(Captioner.load(folders[mode]), rows, lambda key: read_audio(data / key), report=report)
        for mode in modes.split(",")
    }
    text = json.dumps(results, indent=1, ensure_ascii=False)
    print(text)
    if output:
        output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
