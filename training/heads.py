"""Linear heads on pooled tower states: pilots of a recipe, fitted in closed form.

`python -m training.heads --data DIR --tower whisper=openai/whisper-base --tower cloud=FOLDER` leaves one
corpus out for heads on every layer of each tower.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import torch
import typer
from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import Qwen2_5OmniAudioEncoder

from training import whisper
from training.architecture import CLOUD
from training.checkpoint import load_checkpoint
from training.corpus import Waveform, read_audio
from training.feature_cache import batches_by_length
from training.features import log_mel, pooled_length
from training.labels import CLASSES, REPORT_SPEAKERS, TRAINING_CORPORA, Row, emotion_target, read_rows
from training.leave_out import FINAL_CORPUS, Judged, Named, fold, judge, table
from training.tower import build_tower, layer_states, pad_mels

NAMED: Final = ("voice", "emotion")
"""What the heads predict."""
SIZES: Final = [len(CLASSES[name]) for name in NAMED]
AT_ONCE: Final = 256
"""Clips in memory."""
RIDGE: Final = 3.0
"""Penalty on the squared weights of a head, whose features are scaled to a deviation of 1."""


@dataclass(frozen=True)
class Head:
    """A linear head for voice and emotion: (features - `mean`) @ `weights` + `bias`."""

    mean: torch.Tensor
    weights: torch.Tensor
    bias: torch.Tensor

    def names(self, features: torch.Tensor) -> list[Named]:
        """The likeliest voice and emotion of each clip, from features of shape (clips, width)."""
        outputs = (features - self.mean) @ self.weights + self.bias
        best = [scores.argmax(dim=-1).tolist() for scores in torch.split(outputs, SIZES, dim=-1)]
        return [
            {name: CLASSES[name][at] for name, at in zip(NAMED, found, strict=True)}
            for found in zip(*best, strict=True)
        ]


def pooled_layers(tower: Qwen2_5OmniAudioEncoder, waveforms: Sequence[Waveform]) -> torch.Tensor:
    """Mean over time after each layer, (clips, layers + 1, width) float16."""
    tower.eval()
    found = torch.empty(len(waveforms), len(tower.layers) + 1, tower.config.d_model, dtype=torch.float16)
    for batch in batches_by_length(waveforms):
        mels, lengths = pad_mels([log_mel(waveforms[member]) for member in batch])
        with torch.no_grad():
            for layer, states in enumerate(layer_states(tower, mels, lengths)):
                for member, row, frames in zip(batch, states, lengths.tolist(), strict=True):
                    found[member, layer] = row[: pooled_length(frames)].mean(dim=0)
    return found


def clip_weights(rows: Sequence[Row]) -> torch.Tensor:
    """Weights of sum 1 by which corpora count equally, and classes equally within a corpus."""
    groups = [(row.corpus, row.classes.get("emotion", "")) for row in rows]
    emotions = {corpus: len({group for group in groups if group[0] == corpus}) for corpus, _ in set(groups)}
    sizes = {group: groups.count(group) for group in set(groups)}
    weights = torch.tensor([1.0 / (emotions[group[0]] * sizes[group]) for group in groups])
    return weights / weights.sum()


def fit_head(features: torch.Tensor, rows: Sequence[Row]) -> Head:
    """The head that fits `features` (clips, width) of `rows` with the least squared error and penalty."""
    weights = clip_weights(rows)[:, None]
    mean = (features * weights).sum(dim=0)
    scale = ((features - mean).square() * weights).sum(dim=0).sqrt() + 1e-3
    scaled = (features - mean) / scale
    targets = torch.cat([_one_hot(rows), _emotions(rows)], dim=1)
    bias = (targets * weights).sum(dim=0)
    penalty = RIDGE * torch.eye(len(scale))
    solved = torch.linalg.solve((scaled * weights).T @ scaled + penalty, (scaled * weights).T @ (targets - bias))
    return Head(mean, solved / scale[:, None], bias)


def _one_hot(rows: Sequence[Row]) -> torch.Tensor:
    return torch.tensor([[float(row.classes["voice"] == name) for name in CLASSES["voice"]] for row in rows])


def _emotions(rows: Sequence[Row]) -> torch.Tensor:
    return torch.tensor([[emotion_target(row).get(name, 0.0) for name in CLASSES["emotion"]] for row in rows])


def judge_heads(rows: Sequence[Row], features: dict[str, torch.Tensor], corpora: Sequence[str]) -> list[Judged]:
    """Leave each of `corpora` out for heads on `features`, by key, each (width,)."""

    def stacked(own: Sequence[Row]) -> torch.Tensor:
        return torch.stack([features[row.file] for row in own]).float()

    found = []
    for each in (fold(rows, corpus) for corpus in corpora):
        head = fit_head(stacked(each.training), each.training)
        unseen, held_back = (judge(part, head.names(stacked(part))) for part in (each.unseen, each.held_back))
        found.append(Judged(each.left_out, 0, unseen, held_back))  # nothing is drawn, so that there is one seed
    return found


def read_tower(source: str) -> Qwen2_5OmniAudioEncoder:
    """The tower of a checkpoint of either side, or Whisper's encoder from a source of `whisper.read_encoder_state`."""
    if (Path(source) / "chat_template.jinja").exists():
        tower: Qwen2_5OmniAudioEncoder = load_checkpoint(Path(source)).model.audio_tower
        return tower
    tower = build_tower(CLOUD.tower_layers)
    whisper.port(whisper.read_encoder_state(source), tower)
    return tower


def main(
    data: Annotated[Path, typer.Option(help="Folder with labels.tsv and the clips.")],
    source: Annotated[
        list[str],
        typer.Option("--tower", help="NAME=SOURCE: a checkpoint's folder, or Whisper base as in training.train."),
    ],
    final: Annotated[bool, typer.Option(help="Judge on CASIA too, when nothing is left to be chosen.")] = False,
) -> None:
    """Leave one corpus out for linear heads on every layer of towers; prints a table."""
    corpora = (*TRAINING_CORPORA, FINAL_CORPUS) if final else TRAINING_CORPORA
    rows = [row for row in read_rows(data) if row.corpus in corpora and row.speaker not in REPORT_SPEAKERS]
    found: dict[str, list[Judged]] = {}
    for name, tower in (each.split("=", 1) for each in source):
        encoder, parts = read_tower(tower), (rows[at : at + AT_ONCE] for at in range(0, len(rows), AT_ONCE))
        pooled = torch.cat([pooled_layers(encoder, [read_audio(data / row.file) for row in part]) for part in parts])
        for layer in range(pooled.shape[1]):
            own = {row.file: states[layer] for row, states in zip(rows, pooled, strict=True)}
            found[f"{name}, layer {layer}"] = judge_heads(rows, own, corpora)
    print(table(found))


if __name__ == "__main__":
    typer.run(main)
