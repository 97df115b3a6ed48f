"""Train the pair: `python -m training.train --data DIR --whisper SOURCE --work DIR`.

Stages, each resumable after a kill at any moment because everything that takes long is kept in the work folder:
synthesise clips, fine-tune the cloud's tower, cache its features, train the decoder of the seed and grow the cloud's
from it; then the same for the edge, whose decoder grows from the seed's too and is taught by the cloud.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import torch
import typer
from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import Qwen2_5OmniAudioEncoder

from training import WEIGHTS, whisper
from training.architecture import CLOUD, EDGE, SEED, Side, build_thinker, grow_decoder
from training.augment import Pool
from training.checkpoint import load_checkpoint, save_checkpoint
from training.decoder_training import Teacher, train_decoder
from training.dialogue import Dialogue
from training.encoder_training import fine_tune, new_head
from training.feature_cache import Encoded, build_cache
from training.labels import TRAINING_CORPORA, read_rows
from training.recipes import RECIPES, TOWER_RECIPES, Recipe
from training.sources import real_sources, synthetic_sources
from training.state import save_state
from training.tokenizer import train_tokenizer
from training.tower import build_tower


def _report(work: Path, stage: str, recipe: Recipe) -> Callable[[int, dict[str, float]], None]:
    """Writes a stage to `log.jsonl`, so that a run can be read afterwards: its recipe, and losses now and then."""

    def log(record: dict[str, object]) -> None:
        with (work / "log.jsonl").open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({"stage": stage, **record}) + "\n")

    def report(step: int, losses: dict[str, float]) -> None:
        if step % 20 == 0:
            log({"step": step, **losses})

    log(asdict(recipe))
    return report


def prepare(data: Path, work: Path, seed: int, left_out: str | None) -> Pool:
    """What is drawn from: the data folder's clips, without those of the corpus `left_out`, and synthetic ones.

    Raises `ValueError` if there is no training corpus of this name.
    """
    if left_out not in (None, *TRAINING_CORPORA):
        raise ValueError(f"{left_out} is not a training corpus; these are: {', '.join(TRAINING_CORPORA)}")
    rows = [row for row in read_rows(data) if row.corpus != left_out]
    return Pool(real_sources(data, rows) + synthetic_sources(work / "synthetic", seed))


def train_tower(side: Side, pool: Pool, source: str, work: Path, seed: int) -> None:
    """Fine-tune the side's tower, from Whisper's layers."""
    tower, head = build_tower(side.tower_layers), new_head(seed)
    whisper.port(whisper.read_encoder_state(source), tower)
    recipe, name = replace(TOWER_RECIPES[side], seed=seed), f"tower-{side.name}"
    fine_tune(tower, head, pool, recipe, work / f"{name}-state.pt", _report(work, name, recipe))
    save_state(work / f"{name}.pt", tower.state_dict())


def tower_of(side: Side, work: Path) -> Qwen2_5OmniAudioEncoder:
    """The fine-tuned tower of a side; the seed has the cloud's."""
    tower = build_tower(side.tower_layers)
    tower.load_state_dict(torch.load(work / f"tower-{_tower_side(side).name}.pt", weights_only=True))
    return tower


def _tower_side(side: Side) -> Side:
    return CLOUD if side is SEED else side


def _kept(tower: Qwen2_5OmniAudioEncoder) -> dict[str, torch.Tensor]:
    """The tower's weights without those that only a decoder's training can set."""
    return {name: value for name, value in tower.state_dict().items() if not name.startswith(("proj", "audio_bos"))}


def examples_of(side: Side, pool: Pool, work: Path, seed: int) -> list[Encoded]:
    """The training examples, the same for all sides, as the side's tower encodes them."""
    return build_cache(work / f"features-{_tower_side(side).name}", tower_of(side, work), pool, seed)


def train_side(side: Side, pool: Pool, work: Path, output: Path, seed: int) -> None:
    """Cache the side's features, train its decoder and write its checkpoint under `output`.

    Decoders are grown from the seed's and the edge's is taught by the cloud, so those must have been trained.
    """
    tokenizer = train_tokenizer()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = build_thinker(side, tokenizer.get_vocab())
    model.model.audio_tower.load_state_dict(_kept(tower_of(side, work)), strict=False)
    examples = examples_of(side, pool, work, seed)
    if side is not SEED:
        grow_decoder(load_checkpoint(work / SEED.name), model)
    teacher = None
    if side is EDGE:
        teacher = Teacher(load_checkpoint(output / CLOUD.name), examples_of(CLOUD, pool, work, seed))
    recipe, name = replace(RECIPES[side], seed=seed), f"decoder-{side.name}"
    report = _report(work, name, recipe)
    train_decoder(model, Dialogue(tokenizer), examples, recipe, work / f"{name}.pt", report, teacher)
    save_checkpoint(output / side.name, model, tokenizer)


def main(
    data: Annotated[Path, typer.Option(help="Folder with labels.tsv and the clips.")],
    whisper_source: Annotated[
        str, typer.Option("--whisper", help="Hub id, folder in transformers' format, or CTranslate2 model.bin.")
    ] = "openai/whisper-base",
    work: Annotated[Path, typer.Option(help="Folder for caches and training states.")] = Path("mini-training"),
    output: Annotated[Path, typer.Option(help="Folder that gets `edge` and `cloud`.")] = WEIGHTS,
    seed: Annotated[int, typer.Option(help="Seed of every draw.")] = 7,
    left_out: Annotated[
        str | None, typer.Option("--leave-out", help="Corpus to leave out, to be judged on by training.pair_judge.")
    ] = None,
) -> None:
    """Train the mini pair; the same command goes on after an interruption. Another recipe wants another folder."""
    work.mkdir(parents=True, exist_ok=True)
    pool = prepare(data, work, seed, left_out)
    train_tower(CLOUD, pool, whisper_source, work, seed)
    train_side(SEED, pool, work, work, seed)
    train_side(CLOUD, pool, work, output, seed)
    train_tower(EDGE, pool, whisper_source, work, seed)
    train_side(EDGE, pool, work, output, seed)


if __name__ == "__main__":
    typer.run(main)
