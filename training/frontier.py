"""The tables of docs/benchmarks.md by one command: `python -m training.frontier --data DIR --work DIR`.

For each language it runs `specdec compare` with the shipped gates (every run resumes), records the clips once as
`specdec tune` does, replays both entropies and the random gate over them, and prints Markdown: what
each mode spends and closes, and the gap closed at given shares of each cost. The cloud's time of replays is estimated
from the medians of the comparison's own runs.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

import numpy as np
import torch
import typer

from specdec_cli.captioner import Captioner
from specdec_cli.config import load_config
from specdec_cli.console.view import choose_view
from specdec_cli.evaluate.gap import share_of_gap
from specdec_cli.inputs.find import identify
from specdec_cli.labels import Lexicon
from specdec_cli.labels.references import References
from specdec_cli.stats import Resampler, Statistic, Values, difference, mean
from specdec_cli.transcript.records import Transcript
from specdec_cli.tune.outcomes import CaptionQuality, SettingOutcome, swept
from specdec_cli.tune.recording import StoredRecordings, setup_of
from specdec_cli.tune.replay import candidates
from specdec_cli.types import COSTS, Cost, GateName, Interval
from training.labels import balanced, dev_rows, read_rows
from training.oracle import Oracle, oracle
from training.references import write_references
from training.sweep import read_sweep

LANGUAGES: Final = ("zh", "en")
SHARES: Final[Mapping[Cost, tuple[float, ...]]] = {
    "blocks": (0.05, 0.1, 0.15, 0.2, 0.4),
    "clips": (0.2, 0.4, 0.5, 0.6, 0.8),
    "time": (0.1, 0.2, 0.3, 0.4),
}
RATES: Final = (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6)
"""Shares of the blocks that thresholds are chosen for: one in a hundred wakes the cloud for a tenth of the clips."""

_DEFERRED: Final = "deferred"
RUNS: Final[Mapping[str, tuple[str, ...]]] = {
    "entropy": ("--gate", "entropy", "--set", "decoding.k=2", "--mode", "edge,hybrid,lossless,cloud"),
    "class-entropy": ("--gate", "class-entropy", "--mode", "edge,hybrid,cloud"),
}
"""Comparisons by name, with the options of each; the first one's runs of cloud-only time the replays."""


@dataclass(frozen=True)
class Replays:
    """One language's clips: settings by gate, and the two models' quality [clips, attributes]."""

    settings: Mapping[str, Sequence[SettingOutcome]]
    edge: Values
    cloud: Values
    best: Callable[[slice], Oracle]  # of these columns of attributes
    attributes: Sequence[str]


def compare(table: Path, language: str, name: str, own_options: Sequence[str], work: Path) -> Path:
    """Runs `specdec compare` over the clips of a table of references; the file that holds what it printed."""
    files = [line.split("\t")[0] for line in table.read_text(encoding="utf-8").splitlines()[1:]]
    own = work / f"{language}-{name}"
    options = [*own_options, "--references", str(table), "-l", language, "-q", "--json"]
    options += ["--set", "runtime.threads=1", "--output", f"{own}.jsonl"]
    # a list on stdin, since a command line may be too short for it
    done = subprocess.run(
        [sys.executable, "-m", "specdec_cli", "compare", "-", *options],
        input="\n".join(files) + "\n",
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = own.with_suffix(".json")
    found.write_text(done.stdout, encoding="utf-8")
    return found


def replays(table: Path, language: str, gates: Sequence[GateName], k: int, work: Path) -> Replays:
    """Replays of every gate over the clips of the table, which are recorded where they are not yet."""
    config = load_config("mini", flags={"prompt.language": language}, environ={}).config
    captioner, lexicon = Captioner.load(config), Lexicon.read()
    references, watch = References.read(table, lexicon=lexicon), choose_view(steps=True)
    files = [line.split("\t")[0] for line in table.read_text(encoding="utf-8").splitlines()[1:]]
    clips = {str(item.sha256): item.path for item in identify(files)[0] if item.sha256 is not None}
    try:
        with StoredRecordings(setup_of(captioner), work / f"{language}-recordings.jsonl") as journal:
            traces = journal.record(captioner, clips, watch)
    finally:
        watch.close()
    known = {trace.sha256: found for trace in traces if (found := references.find(trace.file))}
    quality = CaptionQuality(lexicon, known, config.prompt.language, captioner.decode)
    prefill = _prefill(work / f"{language}-entropy.jsonl")
    settings: dict[str, list[SettingOutcome]] = {}
    for gate in gates:
        for candidate in candidates(traces, (gate,), (k,), defers=True, rates=RATES):
            name = f"{gate}, {_DEFERRED}" if candidate.deferred else gate
            outcome = swept(candidate, traces, quality, 0, prefill)
            settings.setdefault(name, []).append(outcome)
    edge, cloud = (quality.table(traces, [getattr(t, side).ids for t in traces]) for side in ("edge", "cloud"))

    def best(columns: slice) -> Oracle:
        blocks, tokens = ([float(len(getattr(t, side).ids)) for t in traces] for side in ("edge", "cloud"))
        return oracle(edge[:, columns], cloud[:, columns], -(-np.array(blocks) // k), np.array(tokens), prefill)

    return Replays(settings, edge, cloud, best, list(lexicon.attributes))


def _prefill(path: Path) -> float:
    """Forwards of one token that cloud-only's encoder and prefill take as long as, by its runs; NaN: not known."""
    lines = map(Transcript.from_json, path.read_text(encoding="utf-8").splitlines())
    ratios = [
        prefill_ms * (forwards - 1) / (run.timing.forwards_cloud_ms - prefill_ms)
        for run in lines
        if run.mode == "cloud" and run.totals is not None and run.timing.forwards_cloud_ms is not None
        if (prefill_ms := run.timing.prefill_cloud_ms) is not None and (forwards := run.totals.forwards_cloud or 0) > 1
    ]
    return float(np.median(ratios)) if ratios else float("nan")


def curve_table(
    name: str,
    settings: Mapping[str, Sequence[SettingOutcome]],
    edge: Values,
    cloud: Values,
    best: Oracle | None,
    cost: Cost,
    shares: Sequence[float],
) -> Iterator[str]:
    """Markdown of the gap closed at shares of a cost, a line a gate; bold: above the gate of the line before it.

    `edge` and `cloud` are quality [clips, attributes]; bold means that the paired 95% interval of the difference lies
    above 0.
    """
    resampler = Resampler(len(edge))
    gap = difference(mean(cloud), mean(edge))
    yield f"| {name}, {cost} | " + " | ".join(f"{share:.0%}" for share in shares) + " |"
    yield "|---|" + "---|" * len(shares)
    before: dict[float, Statistic] = {}
    for gate, outcomes in settings.items():
        gains = [(each.spent[cost], difference(mean(each.quality), mean(edge))) for each in outcomes]
        cells = []
        for share in shares:
            closed = share_of_gap(between(gains, share), gap)
            above = resampler.interval(difference(closed, before[share])) if share in before else None
            cells.append(_cell(resampler.interval(closed), above))
            before[share] = closed
        yield f"| {gate} | " + " | ".join(cells) + " |"
    if best is not None:
        cells = [_cell(resampler.interval(share_of_gap(best.gain(cost, share), gap)), None) for share in shares]
        yield "| oracle | " + " | ".join(cells) + " |"


def _cell(closed: Interval | None, above: Interval | None) -> str:
    if closed is None:
        return "-"
    ends = "" if closed.low is None or closed.high is None else f" ({100 * closed.low:.0f}-{100 * closed.high:.0f})"
    text = f"{100 * closed.value:.0f}{ends}"
    return f"**{text}**" if above is not None and above.low is not None and above.low > 0 else text


def between(settings: Sequence[tuple[Statistic, Statistic]], share: float) -> Statistic:
    """What a gate gains at a share of a cost, linearly between its settings and from nothing at 0.

    A mixture that draws one of two settings for each clip reaches every point between them.

    Args:
        settings: (share of the cost, gain) of each.
        share: NaN is the answer where no setting spends as much.
    """

    def statistic(counts: Values) -> Values:
        rows = counts.reshape(-1, counts.shape[-1])
        xs, ys = (np.stack([np.zeros(len(rows)), *(each[axis](rows) for each in settings)], axis=1) for axis in (0, 1))
        order = np.argsort(xs, axis=1, kind="stable")
        xs, ys = np.take_along_axis(xs, order, axis=1), np.take_along_axis(ys, order, axis=1)
        found = [np.interp(share, x, y, right=np.nan) for x, y in zip(xs, ys, strict=True)]
        return np.array(found).reshape(counts.shape[:-1])

    return statistic


def _markdown(found: Replays, language: str) -> Iterator[str]:
    """The tables of one language."""
    emotion = found.attributes.index("emotion")
    one = slice(emotion, emotion + 1)
    for name, columns in (("heard", slice(None)), ("emotion", one)):
        settings = {
            gate: [replace(each, quality=each.quality[:, columns]) for each in outcomes]
            for gate, outcomes in found.settings.items()
        }
        edge, cloud = found.edge[:, columns], found.cloud[:, columns]
        for cost in COSTS:
            if cost == "time" and any(np.isnan(each.share(cost)) for each in settings["random"]):
                continue
            best = found.best(columns)
            if cost == "blocks":  # deferred, a block is the whole caption
                shown = {gate: outcomes for gate, outcomes in settings.items() if _DEFERRED not in gate}
            else:
                shown = settings
            yield from ("", *curve_table(f"{name}, {language}", shown, edge, cloud, best, cost, SHARES[cost]))


def main(
    data: Annotated[Path, typer.Option(help="Folder with labels.tsv and the clips.")],
    work: Annotated[Path, typer.Option(help="Folder for runs and recordings, from which a later run goes on.")],
    references: Annotated[
        Path | None, typer.Option(help="Other clips: a table that training.references wrote. [default: dev clips]")
    ] = None,
    clips: Annotated[int, typer.Option(help="Dev clips, the corpora in equal parts.")] = 300,
    languages: Annotated[str, typer.Option(help="Languages of the captions.")] = ",".join(LANGUAGES),
    k: Annotated[int, typer.Option(help="Tokens drafted per block in replays.")] = 2,
    output: Annotated[Path | None, typer.Option(help="Write the Markdown to this file as well.")] = None,
) -> None:
    """Measure the shipped pair and gates, and print the tables of docs/benchmarks.md."""
    torch.set_num_threads(1)
    work.mkdir(parents=True, exist_ok=True)
    table = references or work / "dev.tsv"
    if references is None and not table.exists():
        write_references(table, balanced(dev_rows(read_rows(data)), clips, 0), data)
    lines: list[str] = []
    for language in languages.split(","):
        runs = [compare(table, language, name, options, work) for name, options in RUNS.items()]
        for name, rows in read_sweep(runs).items():
            lines += ["", f"| {name} | " + " | ".join(rows) + " |", "|---|" + "---|" * len(rows)]
            for column in next(iter(rows.values())):
                lines.append(f"| {column} | " + " | ".join(row.get(column, "-") for row in rows.values()) + " |")
        lines += _markdown(replays(table, language, ("random", "entropy", "class-entropy"), k, work), language)
    text = "\n".join(lines).strip() + "\n"
    typer.echo(text)
    if output is not None:
        output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
