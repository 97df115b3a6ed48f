"""Fit the mini pair's gate: `python -m training.fit_gate --data DIR`.

On clips of training speakers only, in both languages; dev speakers and the corpora that are for evaluation only have
no part in it. Half of the speakers fit the weights, the other half choose k and the threshold. It records every clip
once with both models, and goes on from its recordings when it is run again with the same weights.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import torch
import typer
from rich.console import Console

from specdec_cli import __version__
from specdec_cli.captioner import Captioner
from specdec_cli.config import load_config
from specdec_cli.config.gate_file import GateFile, tokenizer_fingerprint
from specdec_cli.console.progress import choose_steps
from specdec_cli.decoding.learned import Classifier
from specdec_cli.errors import ConfigError
from specdec_cli.lexicon import Lexicon
from specdec_cli.metrics import Reference
from specdec_cli.prompts import Language
from specdec_cli.tune.candidates import candidates
from specdec_cli.tune.fit import examples, fit
from specdec_cli.tune.frontier import Outcome, least_within_noise
from specdec_cli.tune.journal import Journal
from specdec_cli.tune.plan import Plan
from specdec_cli.tune.quality import Yardstick
from specdec_cli.tune.record import setup_of
from specdec_cli.tune.trace import Trace
from specdec_cli.tune.tuner import Tuner, Watch, split, swept
from training import WEIGHTS
from training.labels import Row, balanced, read_rows, training_rows
from training.references import classes_of

LANGUAGES: Final[tuple[Language, ...]] = ("zh", "en")


def recorded(
    captioner: Captioner, plan: Plan, data: Path, rows: Sequence[Row], work: Path, watch: Watch
) -> dict[Language, tuple[list[Trace], dict[str, Reference]]]:
    """Recordings of `rows` in each language, with their references by SHA-256."""
    clips = {hashlib.sha256((data / row.file).read_bytes()).hexdigest(): str(data / row.file) for row in rows}
    named = {str(data / row.file): Reference(row.file, (), classes_of(row), row.speaker) for row in rows}
    found: dict[Language, tuple[list[Trace], dict[str, Reference]]] = {}
    of_pair = hashlib.sha256(repr(captioner.setup.models.weights).encode()).hexdigest()[:16]
    for language in LANGUAGES:
        speaking = captioner.variant(load_config("mini", flags={"prompt.language": language}, environ={}).config)
        with Journal(setup_of(speaking), work / f"gate-{of_pair}-{language}.jsonl") as journal:
            recordings = Tuner(speaking, plan, journal, watch).record(clips)
        found[language] = recordings, {r.sha256: named[r.file] for r in recordings}
    return found


def main(
    data: Annotated[Path, typer.Option(help="Folder with labels.tsv and the clips.")],
    clips: Annotated[int, typer.Option(help="Training clips, the corpora in equal parts.")] = 500,
    k: Annotated[int, typer.Option(help="Tokens drafted per block, written into the file.")] = 2,
    budget: Annotated[float, typer.Option(help="Most blocks to escalate, 0 to 1.")] = 0.2,
    work: Annotated[Path, typer.Option(help="Folder for the recordings.")] = Path("mini-training"),
    output: Annotated[Path, typer.Option(help="Where the gate file goes.")] = WEIGHTS / "gate.json",
    threads: Annotated[int, typer.Option(help="CPU threads.")] = 1,
    seed: Annotated[int, typer.Option(help="Of the choice of clips and the split.")] = 0,
) -> None:
    """Fit the shipped gate on training speakers and write it."""
    torch.set_num_threads(threads)
    work.mkdir(parents=True, exist_ok=True)
    watch = choose_steps()
    captioner = Captioner.load(load_config("mini", environ={}).config)
    plan = Plan(("learned", "random"), (k,), budget, seed)
    try:
        parts = recorded(captioner, plan, data, balanced(training_rows(read_rows(data)), clips, seed), work, watch)
    finally:
        watch.close()
    gate, figures = fitted_gate(captioner, plan, parts)
    output.write_text(gate.to_json(), encoding="utf-8")
    Console().print(figures)


def fitted_gate(
    captioner: Captioner, plan: Plan, parts: dict[Language, tuple[list[Trace], dict[str, Reference]]]
) -> tuple[GateFile, dict[str, Any]]:
    """The gate file, and the figures that it was chosen by."""
    (k,) = plan.ks
    lexicon, tokenizer = Lexicon.load(), tokenizer_fingerprint(captioner.pair.writer.tokenizer.get_vocab())
    halves = {language: split(recordings, known, plan.seed) for language, (recordings, known) in parts.items()}
    yardsticks = {
        language: Yardstick(lexicon, known, language, captioner.decode) for language, (_, known) in parts.items()
    }
    found = [
        example
        for language, half in halves.items()
        for example in examples(half.fitting, [half.groups[r.sha256] for r in half.fitting], k, yardsticks[language])
    ]
    fitting = fit(found, seed=plan.seed)
    classifier = Classifier(fitting.weights, 0.5, tokenizer)
    chosen: dict[Language, list[Outcome]] = {}
    both = [recording for half in halves.values() for recording in half.held_out]
    tried = list(candidates(both, ("learned",), (k,), classifier))
    for language, half in halves.items():
        chosen[language] = [swept(c, half.held_out, yardsticks[language], classifier, plan.seed)[0] for c in tried]
    together = [_joined(outcomes) for outcomes in zip(*chosen.values(), strict=True)]
    best = least_within_noise(together, plan.budget)
    if best is None:
        raise ConfigError(f"no threshold keeps to {plan.budget:g} of the blocks", hint="Allow more: --budget")
    origin = {
        "specdec": __version__,
        "edge": "package:mini/edge",
        "cloud": "package:mini/cloud",
        "weights": captioner.setup.models.weights,
        "speakers": "training speakers of the mini pair",
        "clips": sum(len(half.fitting) for half in halves.values()),
        "threshold_chosen_on": len(both),
        "budget": plan.budget,
        "estimated_escalation_rate": round(best.rate, 4),
        "learned": fitting.figures,
    }
    candidate = best.candidate
    gate = GateFile(
        gate="learned",
        threshold=candidate.threshold,
        k=k,
        stop_drafting=candidate.stop_drafting,
        tokenizer=tokenizer,
        fitted_on=origin,
        learned=fitting.weights,
    )
    return gate, {"setting": candidate.label, **origin}


def _joined(outcomes: Sequence[Outcome]) -> Outcome:
    """One setting over the clips of several languages."""
    return Outcome(
        outcomes[0].candidate,
        np.concatenate([outcome.quality for outcome in outcomes]),
        np.concatenate([outcome.rounds for outcome in outcomes]),
        np.concatenate([outcome.escalations for outcome in outcomes]),
        confirmed=False,
    )


if __name__ == "__main__":
    typer.run(main)
