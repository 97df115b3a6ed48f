"""Train the pair: `python -m training.train --data DIR --whisper SOURCE --work DIR`.

Stages, each resumable after a kill at any moment because everything finished is kept in the work folder: decode and
synthesise clips, fine-tune the cloud's tower, cache its features, train the decoder of the seed and grow the cloud's
from it; then the same for the edge, whose decoder grows from the seed's too and is taught by the cloud.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Final

import torch
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import Qwen2_5OmniAudioEncoder

from training import WEIGHTS, whisper
from training.architecture import CLOUD, EDGE, SEED, Side, build_thinker, grow_decoder
from training.augment import Pool
from training.checkpoint import load_checkpoint, save_checkpoint
from training.decoder_training import RECIPES, Teacher, train_decoder
from training.dialogue import Dialogue
from training.encoder_training import TOWER_RECIPES, fine_tune, new_head
from training.feature_cache import CHUNK, EXAMPLES, Encoded, build_cache
from training.labels import TRAINING_CORPORA, read_rows
from training.sources import Material, training_material
from training.state import save_state
from training.tokenizer import train_tokenizer
from training.tower import build_tower

SYNTHETIC_CLIPS: Final = 2400


@contextmanager
def _progress(title: str, total: int | None) -> Iterator[Callable[..., None]]:
    """A progress bar; the function yielded takes how much is done (else one more) and a short note."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns) as display:
        task = display.add_task(title, total=total, note="")

        def show(done: int | None = None, note: str = "") -> None:
            display.update(task, completed=done, advance=1 if done is None else None, note=note)

        yield show


def _log(work: Path, record: dict[str, object]) -> None:
    """One line in `log.jsonl`, so that a run can be read afterwards."""
    with (work / "log.jsonl").open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(record) + "\n")


def prepare(data: Path, work: Path, seed: int, left_out: str | None) -> Material:
    """Decode the data folder, without the corpus `left_out`, and make the synthetic clips, or find both done.

    Raises `ValueError` if there is no training corpus of this name.
    """
    if left_out not in (None, *TRAINING_CORPORA):
        raise ValueError(f"{left_out} is not a training corpus; these are: {', '.join(TRAINING_CORPORA)}")
    rows = [row for row in read_rows(data) if row.corpus != left_out]
    with _progress("clips", len(rows) + SYNTHETIC_CLIPS) as show:
        return training_material(data, rows, work, SYNTHETIC_CLIPS, seed, show)


def train_tower(side: Side, material: Material, source: str, work: Path, seed: int) -> None:
    """Fine-tune the side's tower, from Whisper's layers."""
    tower, head = build_tower(side.tower_layers), new_head(seed)
    whisper.port(whisper.read_encoder_state(source), tower)
    recipe = replace(TOWER_RECIPES[side], seed=seed)
    _log(work, {"stage": f"{side.name} tower", **asdict(recipe)})
    with _progress(f"{side.name} tower", recipe.steps) as show:

        def report(step: int, losses: dict[str, float]) -> None:
            show(step, " ".join(f"{name} {loss:.3f}" for name, loss in losses.items()))
            if step % 20 == 0:
                _log(work, {"stage": f"{side.name} tower", "step": step, **losses})

        state_path = work / f"tower-{side.name}-state.pt"
        fine_tune(tower, head, Pool(material.sources), material.read, recipe, state_path, report)
    save_state(work / f"tower-{side.name}.pt", tower.state_dict())


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


def examples_of(side: Side, material: Material, work: Path, seed: int) -> list[Encoded]:
    """The training examples, the same for all sides, as the side's tower encodes them."""
    with _progress(f"{side.name} features", EXAMPLES // CHUNK) as show:
        folder = work / f"features-{_tower_side(side).name}"
        return build_cache(folder, tower_of(side, work), Pool(material.sources), material.read, EXAMPLES, seed, show)


def train_side(side: Side, material: Material, work: Path, output: Path, seed: int) -> None:
    """Cache the side's features, train its decoder and write its checkpoint under `output`.

    Decoders are grown from the seed's and the edge's is taught by the cloud, so those must have been trained.
    """
    tokenizer = train_tokenizer()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = build_thinker(side, tokenizer.get_vocab())
    model.model.audio_tower.load_state_dict(_kept(tower_of(side, work)), strict=False)
    examples = examples_of(side, material, work, seed)
    if side is not SEED:
        grow_decoder(load_checkpoint(work / SEED.name), model)
    teacher = None
    if side is EDGE:
        teacher = Teacher(load_checkpoint(output / CLOUD.name), examples_of(CLOUD, material, work, seed))
    recipe = replace(RECIPES[side], seed=seed)
    _log(work, {"stage": side.name, **asdict(recipe)})
    with _progress(f"{side.name} decoder", None) as show:

        def report(step: int, steps: int, losses: dict[str, float]) -> None:
            show(step, f"of {steps}, loss {losses['loss']:.3f}")
            if step % 20 == 0:
                _log(work, {"stage": side.name, "step": step, "steps": steps, **losses})

        state_path = work / f"decoder-{side.name}.pt"
        train_decoder(model, Dialogue(tokenizer), examples, recipe, state_path, report, teacher)
    save_checkpoint(output / side.name, model, tokenizer)


def main(
    data: Annotated[Path, typer.Option(help="Folder with labels.tsv and the clips.")],
    whisper_source: Annotated[
        str, typer.Option("--whisper", help="Hub id, folder in transformers' format, or CTranslate2 model.bin.")
    ] = "openai/whisper-base",
    work: Annotated[Path, typer.Option(help="Folder for caches and training states.")] = Path("mini-training"),
    output: Annotated[Path, typer.Option(help="Folder that gets `edge` and `cloud`.")] = WEIGHTS,
    seed: Annotated[int, typer.Option(help="Seed of every draw.")] = 7,
    threads: Annotated[int, typer.Option(help="CPU threads; 0 keeps torch's default.")] = 0,
    left_out: Annotated[
        str | None, typer.Option("--leave-out", help="Corpus to leave out, to be judged on by training.pair_judge.")
    ] = None,
) -> None:
    """Train the mini pair; the same command goes on after an interruption. Another recipe wants another folder."""
    if threads:
        torch.set_num_threads(threads)
    work.mkdir(parents=True, exist_ok=True)
    material = prepare(data, work, seed, left_out)
    train_tower(CLOUD, material, whisper_source, work, seed)
    train_side(SEED, material, work, work, seed)
    train_side(CLOUD, material, work, output, seed)
    train_tower(EDGE, material, whisper_source, work, seed)
    train_side(EDGE, material, work, output, seed)


if __name__ == "__main__":
    typer.run(main)
