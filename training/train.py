"""Train the pair: `python -m training.train --data DIR --whisper SOURCE --work DIR`.

Stages, each resumable after a kill at any moment because everything finished is kept in the work folder: decode and
synthesise clips, fine-tune the cloud's tower, then cache features and train the decoders of the seed, the edge and the
cloud (whose decoder grows from the seed's).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from enum import StrEnum
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
from training.courses import COURSES, Course
from training.decoder_training import train_decoder
from training.dialogue import Dialogue
from training.encoder_training import TOWER_COURSES, fine_tune, new_head
from training.feature_cache import CHUNK, DECODER_PLAN, TEMPO_PLAN, Encoded, build_cache
from training.labels import read_rows
from training.sources import Material, training_material
from training.state import save_state
from training.tokenizer import train_tokenizer
from training.tower import build_tower

SYNTHETIC_CLIPS: Final = 2400


class Stage(StrEnum):
    """What to train; `all` runs everything in order."""

    ALL = "all"
    PREPARE = "prepare"
    TOWER = "tower"
    SEED = "seed"
    EDGE = "edge"
    CLOUD = "cloud"


@contextmanager
def _progress(title: str, total: int | None) -> Iterator[Callable[[int, str], None]]:
    """A progress bar; the function yielded takes how much is done and a short note."""
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

        def show(done: int, note: str = "") -> None:
            display.update(task, completed=done, note=note)

        yield show


def _log(work: Path, record: dict[str, object]) -> None:
    """One line in `log.jsonl`, so that a run can be read afterwards."""
    with (work / "log.jsonl").open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(record) + "\n")


def prepare(data: Path, work: Path, seed: int) -> Material:
    """Decode the data folder and make the synthetic clips, or find both done."""
    rows = read_rows(data)
    with _progress("clips", len(rows) + SYNTHETIC_CLIPS) as show:
        done = 0

        def advance() -> None:
            nonlocal done
            done += 1
            show(done, "")

        return training_material(data, rows, work, SYNTHETIC_CLIPS, seed, advance)


def train_tower(material: Material, source: str, work: Path, seed: int) -> None:
    """Fine-tune the cloud's tower in its courses; the weights after each are kept for the decoder's courses."""
    tower, head = build_tower(CLOUD.tower_layers), new_head(seed)
    whisper.port(whisper.read_encoder_state(source), tower)
    for number, recipe in enumerate(TOWER_COURSES):
        recipe = replace(recipe, seed=seed + number)
        _log(work, {"stage": "tower", **asdict(recipe)})
        with _progress(f"tower, course {number + 1}", recipe.steps) as show:

            def report(step: int, losses: dict[str, float], show: Callable[[int, str], None] = show) -> None:
                show(step, " ".join(f"{name} {loss:.3f}" for name, loss in losses.items()))
                if step % 20 == 0:
                    _log(work, {"stage": "tower", "step": step, **losses})

            state_path = work / f"tower-state-{number}.pt"
            fine_tune(tower, head, Pool(material.sources), material.read, recipe, state_path, report)
        save_state(work / f"tower-{number}.pt", tower.state_dict())


def tower_of(side: Side, course: Course, source: str, work: Path) -> Qwen2_5OmniAudioEncoder:
    """The edge keeps Whisper's first layer as it is, the cloud has all six as the course's tower course left them."""
    tower = build_tower(side.tower_layers)
    if side is CLOUD:
        tower.load_state_dict(torch.load(work / f"tower-{course.tower}.pt", weights_only=True))
    else:
        whisper.port(whisper.read_encoder_state(source), tower)
    return tower


def _kept(tower: Qwen2_5OmniAudioEncoder) -> dict[str, torch.Tensor]:
    """The tower's weights without those that only a decoder's training can set."""
    return {name: value for name, value in tower.state_dict().items() if not name.startswith(("proj", "audio_bos"))}


def features_folder(side: Side, course: Course) -> str:
    """Name of the folder of the course's features: one for each tower."""
    return f"features-{side.name}-{course.tower}" if side is CLOUD else f"features-{side.name}"


def _examples(
    side: Side, course: Course, tower: Qwen2_5OmniAudioEncoder, material: Material, work: Path, seed: int
) -> list[Encoded]:
    """The course's encoded examples; all sides draw the same ones."""
    found: list[Encoded] = []
    name = features_folder(side, course)
    with _progress(f"{side.name} features", (course.plain + course.tempo) // CHUNK) as show:
        done = 0

        def advance() -> None:
            nonlocal done
            done += 1
            show(done, "")

        pool = Pool(material.sources)
        for folder, count, draws, plan in (
            (name, course.plain, seed, DECODER_PLAN),
            (f"{name}-tempo", course.tempo, seed + 1, TEMPO_PLAN),
        ):
            found += build_cache(work / folder, tower, pool, material.read, count, draws, advance, plan)
    return found


def train_side(side: Side, material: Material, source: str, work: Path, output: Path, seed: int) -> None:
    """Cache the side's features, train its decoder in its courses and write its checkpoint under `output`.

    The cloud's decoder is grown from the seed's, so the seed must have been trained.
    """
    tokenizer = train_tokenizer()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = build_thinker(side, tokenizer.get_vocab())
    first = tower_of(side, COURSES[side][0], source, work)
    model.model.audio_tower.load_state_dict(_kept(first), strict=False)
    if side is CLOUD:
        grow_decoder(load_checkpoint(work / SEED.name), model)
    for number, course in enumerate(COURSES[side]):
        course = replace(course, recipe=replace(course.recipe, seed=seed + number))
        _log(work, {"stage": side.name, **asdict(course)})
        tower = tower_of(side, course, source, work)
        layers = {name: value for name, value in _kept(tower).items() if not name.startswith("ln_post")}
        model.model.audio_tower.load_state_dict(layers, strict=False)
        examples = _examples(side, course, tower, material, work, seed)
        with _progress(f"{side.name} decoder, course {number + 1}", None) as show:

            def report(
                step: int, steps: int, losses: dict[str, float], show: Callable[[int, str], None] = show
            ) -> None:
                show(step, f"of {steps}, loss {losses['loss']:.3f}")
                if step % 20 == 0:
                    _log(work, {"stage": side.name, "step": step, "steps": steps, **losses})

            state_path = work / f"decoder-{side.name}-{number}.pt"
            train_decoder(model, Dialogue(tokenizer), examples, course.recipe, state_path, report)
    save_checkpoint(output / side.name, model, tokenizer)


def main(
    data: Annotated[Path, typer.Option(help="Folder with labels.tsv and the clips.")],
    whisper_source: Annotated[
        str, typer.Option("--whisper", help="Hub id, folder in transformers' format, or CTranslate2 model.bin.")
    ] = "openai/whisper-base",
    work: Annotated[Path, typer.Option(help="Folder for caches and training states.")] = Path("mini-training"),
    output: Annotated[Path, typer.Option(help="Folder that gets `edge` and `cloud`.")] = WEIGHTS,
    stage: Annotated[Stage, typer.Option(help="Run only this stage.")] = Stage.ALL,
    seed: Annotated[int, typer.Option(help="Seed of every draw.")] = 7,
    threads: Annotated[int, typer.Option(help="CPU threads; 0 keeps torch's default.")] = 0,
) -> None:
    """Train the mini pair; run the same command again after an interruption and it goes on."""
    if threads:
        torch.set_num_threads(threads)
    work.mkdir(parents=True, exist_ok=True)
    material = prepare(data, work, seed)
    if stage in (Stage.ALL, Stage.TOWER):
        train_tower(material, whisper_source, work, seed)
    for side in (SEED, EDGE, CLOUD):
        if stage in (Stage.ALL, Stage(side.name)):
            train_side(side, material, whisper_source, work, work if side is SEED else output, seed)


if __name__ == "__main__":
    typer.run(main)
