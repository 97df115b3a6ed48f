"""Measure the pair through the decoding loop: `python -m training.sweep --data DIR`.

Every setting captions the same dev clips, interleaved clip by clip after a warm-up, so that a slow moment of the
machine hits all of them. The shipped k and threshold were chosen from its table; the model card quotes it.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Annotated, Any, Final, Literal, cast

import numpy as np
import numpy.typing as npt
import torch
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from specdec_cli.captioner import Captioner
from specdec_cli.config import Config, load_config
from specdec_cli.config.locate import PACKAGED_GATES
from specdec_cli.decoding.build import build_loop
from specdec_cli.metrics import gap_closed
from specdec_cli.models.processor import Prompt
from specdec_cli.prompts import Language, prompt_for
from specdec_cli.types import DEFAULT_THRESHOLDS, Finished, GateName, Mode, Round
from training.corpus import read_audio
from training.labels import PROSODY, TRAINING_CORPORA, Row, dev_rows, read_rows
from training.scoring import Scored, summarise

WARM_UP: Final = 3  # clips, not counted


@dataclass(frozen=True)
class Setting:
    """One line of the table."""

    mode: Mode
    gate: GateName = "entropy"
    threshold: float | None = None
    k: int | Literal["auto"] = 5
    stop_drafting: bool = False

    @property
    def label(self) -> str:
        """Short name."""
        if self.mode != "hybrid":
            return f"{self.mode}, k {self.k}"
        return f"{self.gate} {self.threshold:g}, k {self.k}" + (", stopping" if self.stop_drafting else "")


@dataclass
class Tally:
    """What one setting did over all clips."""

    scored: list[Scored] = field(default_factory=list)
    wall_ms: list[float] = field(default_factory=list)
    forwards_ms: list[float] = field(default_factory=list)
    step_ms: dict[str, list[float]] = field(default_factory=lambda: {"edge": [], "cloud": []})
    tokens: int = 0
    edge_tokens: int = 0
    rounds: int = 0
    escalated: int = 0
    drafted: int = 0
    accepted: int = 0

    def add(self, rounds: Sequence[Round], finished: Finished) -> None:
        """Counts one clip."""
        work = [part for part in (finished.edge, finished.cloud) if part is not None and part.forwards]
        self.wall_ms.append(finished.total_ms)
        self.forwards_ms.append(sum(part.total_ms for part in work))
        self.tokens += len(finished.token_ids)
        self.rounds += len(rounds)
        for name, part in (("edge", finished.edge), ("cloud", finished.cloud)):
            if part is not None and part.forwards > 1:
                self.step_ms[name].append(part.step_ms / (part.forwards - 1))
        for round_ in rounds:
            self.edge_tokens += sum(source in ("edge", "accepted") for source in round_.source)
            if round_.escalated:
                self.escalated += 1
                self.drafted += len(round_.draft_ids)
                self.accepted += round_.accepted

    def hits(self, attributes: Sequence[str]) -> npt.NDArray[np.float64]:
        """Share of the attributes that each clip's caption has right [clips]; NaN where none of them is known.

        The emotion of a CREMA-D clip counts only where listeners heard what the actor meant.
        """
        return np.array([_share(item, attributes) for item in self.scored])

    def figures(self) -> dict[str, Any]:
        """Everything as plain numbers: per cent, milliseconds, tokens a second."""
        summary = summarise(self.scored)
        prosody = [value for value in summary["prosody"].values() if value is not None]
        seven = [*prosody, summary["emotion_mean"]]
        return {
            "clips": len(self.wall_ms),
            "emotion_mean": summary["emotion_mean"],
            "emotion": summary["emotion"],
            "prosody": summary["prosody"],
            "mean_of_seven": round(fmean(seven), 2),
            "well_formed": summary["well_formed"],
            "escalation_rate": _percent(self.escalated, self.rounds),
            "acceptance_rate": _percent(self.accepted, self.drafted),
            "edge_token_share": _percent(self.edge_tokens, self.tokens),
            "ms_per_clip": round(fmean(self.wall_ms), 2),
            "ms_per_clip_median": round(median(self.wall_ms), 2),
            "tokens_per_s": round(1e3 * self.tokens / sum(self.wall_ms), 1),
            "wall_over_forwards": round(sum(self.wall_ms) / sum(self.forwards_ms), 3),
            "edge_step_ms": _median(self.step_ms["edge"]),
            "cloud_pass_ms": _median(self.step_ms["cloud"]),
        }


def settings(gates: Sequence[str], ks: Sequence[int | Literal["auto"]]) -> list[Setting]:
    """The two baselines, lossless, and hybrid over gates and k.

    Args:
        gates: `NAME:THRESHOLD`, with `:stop` after it for drafting that stops at an unsure token.
        ks: tokens drafted per round.

    Raises:
        ValueError: a gate that is none, or a threshold that is no number.
    """
    found = [Setting("edge"), Setting("cloud"), *(Setting("lossless", k=k) for k in ks)]
    for text in gates:
        name, threshold, *rest = text.split(":")
        if name not in DEFAULT_THRESHOLDS and name != "learned":
            raise ValueError(f"{text!r}: no gate of that name has a threshold")
        found += [Setting("hybrid", cast(GateName, name), float(threshold), k, rest == ["stop"]) for k in ks]
    return found


def balanced(rows: Sequence[Row], clips: int, seed: int) -> list[Row]:
    """About `clips` dev clips, the training corpora in equal parts as far as they go."""
    return evenly(dev_rows(rows), clips, seed)


def evenly(rows: Sequence[Row], clips: int, seed: int) -> list[Row]:
    """About `clips` of `rows`, shuffled, the training corpora in equal parts as far as they go."""
    rng = random.Random(seed)
    chosen: list[Row] = []
    parts = [[row for row in rows if row.corpus == corpus] for corpus in TRAINING_CORPORA]
    for left, part in zip(range(len(parts), 0, -1), sorted(parts, key=len), strict=True):
        chosen += rng.sample(part, min(len(part), (clips - len(chosen)) // left))
    rng.shuffle(chosen)
    return chosen


def sweep(
    captioner: Captioner, data: Path, rows: Sequence[Row], over: Sequence[Setting], language: Language
) -> dict[str, dict[str, Any]]:
    """Captions `rows` under every setting, interleaved.

    Returns:
        Label of the setting -> its figures.
    """
    tallies = {setting.label: Tally() for setting in over}
    variants = {setting.label: captioner.variant(_configured(captioner.config, setting)) for setting in over}
    for number, row in enumerate(track([*rows[:WARM_UP], *rows], description=f"{language}")):
        prompts = captioner.prompts(read_audio(data / row.file), prompt_for(language))
        for setting in over:
            rounds, finished = _decode(variants[setting.label], *prompts)
            if number < WARM_UP:
                continue
            text = captioner.decode(finished.token_ids)
            tally = tallies[setting.label]
            tally.add(rounds, finished)
            tally.scored.append(Scored(row, language, "default", text))
    ends = tallies[over[0].label], tallies[over[1].label]
    return {label: {**tally.figures(), "gap_closed": _gaps(*ends, tally)} for label, tally in tallies.items()}


def _gaps(edge: Tally, cloud: Tally, tally: Tally) -> dict[str, list[float] | None]:
    """Share of the edge-cloud gap closed, with its 95% interval: emotion, and all seven classes."""
    found: dict[str, list[float] | None] = {}
    for name, attributes in (("emotion", ("emotion",)), ("seven", (*PROSODY, "emotion"))):
        interval = gap_closed(edge.hits(attributes), tally.hits(attributes), cloud.hits(attributes))
        ends = (interval.value, interval.low, interval.high) if interval else None
        found[name] = [round(value, 3) for value in ends if value is not None] if ends else None
    return found


def _configured(config: Config, setting: Setting) -> Config:
    decoding = config.decoding.model_copy(update={"mode": setting.mode, "k": setting.k})
    changed = {"name": setting.gate, "threshold": setting.threshold, "stop_drafting": setting.stop_drafting}
    gate = config.gate.model_copy(update={**changed, "file": PACKAGED_GATES[0] if setting.gate == "learned" else None})
    return config.model_copy(update={"decoding": decoding, "gate": gate})


def _decode(captioner: Captioner, edge: Prompt | None, cloud: Prompt | None) -> tuple[list[Round], Finished]:
    loop = build_loop(captioner.pair, captioner.config, edge, cloud, classifier=captioner.classifier)
    events = list(loop.run())
    finished = events[-1]
    assert isinstance(finished, Finished)
    return [event for event in events if isinstance(event, Round)], finished


def tables(results: dict[str, dict[str, dict[str, Any]]]) -> Iterator[Table]:
    """One table a language."""
    columns = {
        "emotion": "emotion_mean",
        "mean of 7": "mean_of_seven",
        "escalated": "escalation_rate",
        "accepted": "acceptance_rate",
        "edge tokens": "edge_token_share",
        "ms/clip": "ms_per_clip",
        "tokens/s": "tokens_per_s",
        "wall/forwards": "wall_over_forwards",
        "edge step ms": "edge_step_ms",
        "cloud pass ms": "cloud_pass_ms",
    }
    for language, by_setting in results.items():
        gaps = {"emotion gap": "emotion", "gap of 7": "seven"}
        clips = next(iter(by_setting.values()))["clips"]
        table = Table(title=f"{clips} clips of unseen speakers, {language}; per cent unless said otherwise")
        table.add_column("setting")
        for name in (*columns, *gaps, *PROSODY):
            table.add_column(name, justify="right")
        for label, figures in by_setting.items():
            cells = [figures[key] for key in columns.values()]
            cells += [_interval(figures["gap_closed"][key]) for key in gaps.values()]
            cells += [figures["prosody"][name] for name in PROSODY]
            table.add_row(label, *("-" if cell is None else str(cell) for cell in cells))
        yield table


def _share(item: Scored, attributes: Sequence[str]) -> float:
    known = [name for name in attributes if name in item.row.classes and (name != "emotion" or item.row.agreed)]
    return fmean(item.classes.get(name) == item.row.classes[name] for name in known) if known else math.nan


def _percent(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 1) if whole else None


def _interval(values: list[float] | None) -> str | None:
    return None if values is None else "{:.2f} ({:.2f}-{:.2f})".format(*values)


def _median(values: Sequence[float]) -> float | None:
    return round(median(values), 2) if values else None


def main(
    data: Annotated[Path, typer.Option(help="Folder with labels.tsv and the clips.")],
    clips: Annotated[int, typer.Option(help="Dev clips, the corpora in equal parts.")] = 300,
    gates: Annotated[
        str, typer.Option(help="Hybrid's gates, NAME:THRESHOLD[:stop].")
    ] = "entropy:0.6,entropy:0.8,entropy:1.0,entropy:1.2,random:0.1",
    ks: Annotated[str, typer.Option(help="Tokens drafted per round, numbers or auto.")] = "3,5,8",
    languages: Annotated[str, typer.Option(help="Of the captions.")] = "zh,en",
    threads: Annotated[int, typer.Option(help="CPU threads.")] = 1,
    seed: Annotated[int, typer.Option(help="Of the choice of clips.")] = 0,
    output: Annotated[Path | None, typer.Option(help="Write all figures to this JSON file.")] = None,
) -> None:
    """Quality, escalation and time of every mode, gate and k on unseen speakers."""
    torch.set_num_threads(threads)
    captioner = Captioner.load(load_config("mini", environ={}).config)
    lengths: list[int | Literal["auto"]] = ["auto" if k == "auto" else int(k) for k in ks.split(",")]
    over = settings(gates.split(","), lengths)
    rows = balanced(read_rows(data), clips, seed)
    both: tuple[Language, ...] = ("zh", "en")
    chosen = [language for language in both if language in languages.split(",")]
    results: dict[str, dict[str, dict[str, Any]]] = {
        language: sweep(captioner, data, rows, over, language) for language in chosen
    }
    console = Console(width=200)
    for table in tables(results):
        console.print(table)
    if output is not None:
        output.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
