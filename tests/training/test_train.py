"""The pair's stages, one after another, on a few tones."""

from dataclasses import replace

import pytest
import torch

from training import train
from training.architecture import CLOUD, EDGE, SEED
from training.augment import Source
from training.captioning import Captioner
from training.corpus import Waveform
from training.decoder_training import RECIPES
from training.encoder_training import TOWER_RECIPES
from training.sources import Material
from training.tower import build_tower


class _Toy(Material):
    def __init__(self, sources: list[Source], waveforms: dict[str, Waveform]) -> None:
        super().__init__(sources, [])
        self.waveforms = waveforms

    def read(self, key: str) -> Waveform:
        return self.waveforms[key]


@pytest.fixture
def short(monkeypatch, toy) -> None:
    """Stages of a few steps, and a random Whisper."""
    state = {name.replace("ln_post", "layer_norm"): value for name, value in build_tower(6).state_dict().items()}
    monkeypatch.setattr("training.whisper.read_encoder_state", lambda _: state)
    monkeypatch.setattr("training.encoder_training.CHANNEL_CLIPS", 6)
    monkeypatch.setattr(train, "EXAMPLES", 6)
    monkeypatch.setattr(train, "prepare", lambda *_: _Toy(*toy))
    for side, tower in TOWER_RECIPES.items():
        monkeypatch.setitem(train.TOWER_RECIPES, side, replace(tower, steps=1, batch=2))
    for side, decoder in RECIPES.items():
        monkeypatch.setitem(train.RECIPES, side, replace(decoder, epochs=1, batch=6))


@pytest.mark.slow
@pytest.mark.usefixtures("short")
def test_all_stages_give_a_pair_and_the_same_command_again_changes_nothing(tmp_path):
    work, output = tmp_path / "work", tmp_path / "pair"
    train.main(tmp_path, "", work, output)
    weights = {side.name: (output / side.name / "model.safetensors").read_bytes() for side in (EDGE, CLOUD)}
    captioner = Captioner.load(output / "edge")
    tower = torch.load(work / "tower-edge.pt", weights_only=True)
    kept = captioner.model.model.audio_tower.state_dict()
    assert torch.allclose(kept["layers.0.fc1.weight"], tower["layers.0.fc1.weight"], atol=1e-3)
    assert (work / SEED.name / "model.safetensors").exists()
    train.main(tmp_path, "", work, output)
    assert weights == {side.name: (output / side.name / "model.safetensors").read_bytes() for side in (EDGE, CLOUD)}
