"""The pair's stages, one after another, on a few tones."""

from dataclasses import replace
from itertools import count

import pytest
import torch
from torch import nn

from training import train
from training.architecture import CLOUD, EDGE, SEED
from training.augment import Pool
from training.checkpoint import load_checkpoint
from training.recipes import RECIPES, TOWER_RECIPES, Recipe
from training.state import take_steps
from training.tower import build_tower


@pytest.fixture
def short(monkeypatch, toy) -> None:
    """Stages of a few steps, and a random Whisper."""
    state = {name.replace("ln_post", "layer_norm"): value for name, value in build_tower(6).state_dict().items()}
    monkeypatch.setattr("training.whisper.read_encoder_state", lambda _: state)
    monkeypatch.setattr("training.encoder_training.CHANNEL_CLIPS", 6)
    monkeypatch.setattr("training.feature_cache.EXAMPLES", 6)
    monkeypatch.setattr(train, "prepare", lambda *_: Pool(toy))
    for side, tower in TOWER_RECIPES.items():
        monkeypatch.setitem(TOWER_RECIPES, side, replace(tower, steps=1, batch=2))
    for side, decoder in RECIPES.items():
        monkeypatch.setitem(RECIPES, side, replace(decoder, epochs=1, batch=6))


@pytest.mark.slow
@pytest.mark.usefixtures("short")
def test_all_stages_give_a_pair_and_the_same_command_again_changes_nothing(tmp_path):
    work, output = tmp_path / "work", tmp_path / "pair"
    train.main(tmp_path, "", work, output)
    weights = {side.name: (output / side.name / "model.safetensors").read_bytes() for side in (EDGE, CLOUD)}
    tower = torch.load(work / "tower-edge.pt", weights_only=True)
    kept = load_checkpoint(output / "edge").model.audio_tower.state_dict()
    assert torch.allclose(kept["layers.0.fc1.weight"], tower["layers.0.fc1.weight"], atol=1e-3)
    assert (work / SEED.name / "model.safetensors").exists()
    train.main(tmp_path, "", work, output)
    assert weights == {side.name: (output / side.name / "model.safetensors").read_bytes() for side in (EDGE, CLOUD)}


def test_steps_that_were_broken_off_go_on_where_they_were_saved(tmp_path, monkeypatch):
    monkeypatch.setattr("training.state.SAVE_EVERY", 2)

    def trained(name: str, breaks_at: int = 0) -> torch.Tensor:
        layer = nn.Linear(3, 2)
        nn.init.ones_(layer.weight)
        nn.init.zeros_(layer.bias)

        def losses(first):
            for step in count(first):
                yield {"loss": (layer(torch.randn(4, 3)) - step).square().mean()}

        def report(step, _):
            if step == breaks_at:
                raise KeyboardInterrupt

        groups = [{"params": list(layer.parameters()), "lr": 0.1}]
        recipe = Recipe(warm_up=2)
        take_steps(recipe, 9, dict(layer.named_parameters()), groups, losses, tmp_path / f"{name}.pt", report)
        return layer.weight.detach()

    whole = trained("whole")
    with pytest.raises(KeyboardInterrupt):
        trained("broken", breaks_at=6)
    assert torch.load(tmp_path / "broken.pt", weights_only=True)["step"] == 4
    assert torch.equal(trained("broken"), whole)
