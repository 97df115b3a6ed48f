"""The training loops on a few tones: the loss falls, and a killed run goes on as if nothing had happened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedTokenizerFast
from transformers import Qwen2_5OmniThinkerForConditionalGeneration as Thinker

from training.architecture import EDGE, SEED, build_thinker
from training.augment import Example, Plan, Pool, Source
from training.captioning import Captioner
from training.checkpoint import load_checkpoint, save_checkpoint
from training.collate import PADDING, Batch, Collator, Noise, Weights, branch_mask
from training.corpus import Waveform
from training.decoder_training import DecoderRecipe, Teacher, caption_loss, plan_batches, train_decoder
from training.dialogue import Dialogue
from training.encoder_training import EncoderRecipe, batches, fine_tune, measure_loss, new_head, scaled_measures
from training.feature_cache import Encoded, build_cache
from training.labels import Measures
from training.tokenizer import train_tokenizer
from training.tower import build_tower

Toy = tuple[list[Source], dict[str, Waveform]]
SHORT = Plan(join=0.0, crop=0.0)


class KilledError(Exception):
    """Stands in for a kill signal."""


def _kill_at(step: int) -> Callable[..., None]:
    def report(done: int, *_: object) -> None:
        if done == step:
            raise KilledError

    return report


def _seeded_tower() -> torch.nn.Module:
    torch.manual_seed(0)
    return build_tower(1)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return train_tokenizer()


@pytest.fixture(scope="module")
def encoded(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> list[Encoded]:
    sources, waveforms = toy
    folder = tmp_path_factory.mktemp("cache")
    tower = _seeded_tower()
    first = build_cache(folder, tower, Pool(sources), waveforms.__getitem__, 12, 3, plan=SHORT)
    again = build_cache(folder, tower, Pool(sources), {}.__getitem__, 12, 3, plan=SHORT)  # reads no clip
    assert all(torch.equal(a.states, b.states) and a.classes == b.classes for a, b in zip(first, again, strict=True))
    return first


def test_a_batch_depends_on_its_number_only(toy: Toy) -> None:
    sources, waveforms = toy

    def third(first: int) -> list[torch.Tensor]:
        stream = batches(1, first, 2, Pool(sources), waveforms.__getitem__, SHORT)
        for _ in range(2 - first):
            next(stream)
        return [mel for mel, _ in next(stream)]

    assert all(torch.equal(a, b) for a, b in zip(third(0), third(2), strict=True))


def _measured(**measures: float) -> Example:
    return Example("toy", np.zeros(1, np.float32), Measures(**measures), {}, 1.0)


def test_measures_are_scaled_and_unknown_ones_teach_nothing() -> None:
    examples = [_measured(f0_hz=330.0, f0_range_st=11.0, level_dbfs=-34.0), _measured(rate_syl_s=6.0)]
    target = scaled_measures(examples)
    # an octave above 165 Hz is 12 semitones of scale 6; 11 - 8 semitones of scale 3; 6.0 - 4.8 of scale 1.2; ...
    assert target[0, :2].tolist() == pytest.approx([2.0, 1.0], abs=1e-4)
    assert target[0, 3] == pytest.approx(-1.0)
    assert target[1, 2] == pytest.approx(1.0)
    assert target.isnan().tolist() == [[False, False, True, False, True], [True, True, False, True, True]]
    predicted = torch.zeros(2, 5, requires_grad=True)
    loss = measure_loss(predicted, examples)
    assert loss.item() == pytest.approx((2.0 - 0.5) + 0.5 + 0.5 + 0.5, abs=1e-4)  # Huber: linear beyond 1
    torch.autograd.backward(loss)
    assert predicted.grad is not None
    assert ((predicted.grad != 0) == ~target.isnan()).all()


@pytest.mark.parametrize(
    ("f0", "channel"), [(1.0, 4), *(pytest.param(f0, 0, marks=pytest.mark.full) for f0 in (0.0, 1.0))]
)
def test_tower_training_resumes_exactly(
    toy: Toy, tmp_path: Path, f0: float, channel: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.encoder_training.CHANNEL_CLIPS", 12)
    sources, waveforms = toy
    recipe = EncoderRecipe(steps=4, batch=4, warm_up=1, f0=f0, channel=channel, save_every=2)
    losses: list[dict[str, float]] = []

    def run(path: Path, report: Callable[..., None]) -> dict[str, torch.Tensor]:
        tower = _seeded_tower()
        fine_tune(tower, new_head(0), Pool(sources), waveforms.__getitem__, recipe, path, report, SHORT)
        return tower.state_dict()

    whole = run(tmp_path / "whole.pt", lambda _, loss: losses.append(loss))
    with pytest.raises(KilledError):
        run(tmp_path / "cut.pt", _kill_at(3))
    resumed = run(tmp_path / "cut.pt", lambda *_: None)
    assert np.isfinite([list(loss.values()) for loss in losses]).all()
    assert ("f0" in losses[0]) == bool(f0)
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    basis = torch.load(tmp_path / "whole.pt", weights_only=True)["basis"]
    assert (basis is None) == (channel == 0)
    if basis is not None:
        assert (basis.T @ whole["layers.0.self_attn.out_proj.weight"]).abs().max() < 1e-5


@pytest.mark.full
def test_a_head_learns_to_tell_f0_from_the_states(toy: Toy, tmp_path: Path) -> None:
    sources, waveforms = toy
    losses: list[float] = []
    recipe = EncoderRecipe(steps=30, batch=4, warm_up=1, f0=1.0, tower_rate=1e-3)
    plan = Plan(join=0.0, crop=0.0, noise=0.0)
    fine_tune(
        _seeded_tower(),
        new_head(0),
        Pool(sources),
        waveforms.__getitem__,
        recipe,
        tmp_path / "state.pt",
        lambda _, loss: losses.append(loss["f0"]),
        plan,
    )
    assert np.mean(losses[-5:]) < 0.7 * losses[0]


@pytest.mark.full
def test_decoder_training_resumes_exactly_and_its_checkpoint_captions(
    encoded: list[Encoded], tokenizer: PreTrainedTokenizerFast, toy: Toy, tmp_path: Path
) -> None:
    recipe = DecoderRecipe(epochs=4, batch=4, warm_up=2, rate=3e-3, save_every=5, average=0.5)
    losses: list[float] = []

    def run(path: Path, report: Callable[..., None]) -> Thinker:
        torch.manual_seed(0)
        model = build_thinker(EDGE, tokenizer.get_vocab())
        train_decoder(model, Dialogue(tokenizer), encoded, recipe, path, report)
        return model

    whole = run(tmp_path / "whole.pt", lambda _step, _steps, loss: losses.append(loss["loss"]))
    with pytest.raises(KilledError):
        run(tmp_path / "cut.pt", _kill_at(7))
    resumed = run(tmp_path / "cut.pt", lambda *_: None).state_dict()
    assert all(torch.equal(value, resumed[name]) for name, value in whole.state_dict().items())
    assert losses[-1] < 0.7 * losses[0]

    save_checkpoint(tmp_path / "edge", whole, tokenizer)
    captioner = Captioner.load(tmp_path / "edge")
    assert isinstance(captioner.caption(next(iter(toy[1].values())), "en"), str)


def test_a_taught_side_comes_to_speak_as_its_teacher(
    encoded: list[Encoded], tokenizer: PreTrainedTokenizerFast
) -> None:
    dialogue = Dialogue(tokenizer)
    torch.manual_seed(1)
    teacher = Teacher(build_thinker(SEED, tokenizer.get_vocab()).eval(), encoded)
    torch.manual_seed(2)
    model = build_thinker(EDGE, tokenizer.get_vocab())

    def batch_of(side: Thinker) -> Batch:
        collate = Collator(side, dialogue, 3, Weights(0.2, 4.0), Noise(0.0, 0.0), 0.05)
        return collate(encoded[:4], np.random.default_rng(4), torch.Generator())

    taught = teacher.log_probs(batch_of(teacher.model))
    alone = caption_loss(model, batch_of(model), 0.0)
    both = [caption_loss(model, batch_of(model), 0.0, taught, share) for share in (0.0, 1.0)]
    assert both[0].item() == pytest.approx(alone.item())
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(8):
        optimiser.zero_grad()
        loss = caption_loss(model, batch_of(model), 0.0, taught, 1.0)
        torch.autograd.backward(loss)
        optimiser.step()
    weights = batch_of(model).weights
    weights = weights[weights > 0]
    floor = (-(taught.exp() * taught).sum(dim=-1) * weights).sum() / weights.sum()  # the teacher's own entropy
    assert loss - floor < 0.5 * (both[1] - floor)


def test_teaching_resumes_exactly(encoded: list[Encoded], tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    torch.manual_seed(1)
    teacher = Teacher(build_thinker(SEED, tokenizer.get_vocab()).eval(), encoded)
    recipe = DecoderRecipe(epochs=2, batch=4, warm_up=2, save_every=2, distilled=0.5)

    def run(path: Path, report: Callable[..., None]) -> dict[str, torch.Tensor]:
        torch.manual_seed(0)
        model = build_thinker(EDGE, tokenizer.get_vocab())
        train_decoder(model, Dialogue(tokenizer), encoded, recipe, path, report, teacher)
        return model.state_dict()

    whole = run(tmp_path / "whole.pt", lambda *_: None)
    with pytest.raises(KilledError):
        run(tmp_path / "cut.pt", _kill_at(3))
    resumed = run(tmp_path / "cut.pt", lambda *_: None)
    assert all(torch.equal(value, resumed[name]) for name, value in whole.items())


def test_a_branch_is_computed_as_if_it_stood_alone(encoded: list[Encoded], tokenizer: PreTrainedTokenizerFast) -> None:
    torch.manual_seed(0)
    model, dialogue = build_thinker(EDGE, tokenizer.get_vocab()).eval(), Dialogue(tokenizer)
    collate = Collator(model, dialogue, 3, Weights(0.2, 4.0), Noise(0.0, 0.0), 0.05)
    with torch.inference_mode():
        batch = collate(encoded[:1], np.random.default_rng(4), torch.Generator())
        together = model.model.language_model(
            inputs_embeds=batch.embeddings,
            attention_mask={"full_attention": branch_mask(batch.branches)},
            position_ids=batch.positions.expand(3, *batch.positions.shape),
        ).last_hidden_state[0]
        for branch in (1, 2, 3):
            kept = (batch.branches[0] == 0) | (batch.branches[0] == branch)
            alone = model.model.language_model(inputs_embeds=batch.embeddings[:, kept]).last_hidden_state[0]
            assert torch.allclose(alone, together[kept], atol=1e-4)


def test_branch_mask_hides_other_branches() -> None:
    mask = branch_mask(torch.tensor([[0, 0, 1, 1, 2, PADDING]]))[0, 0]
    seen = mask == 0
    assert seen[3].tolist() == [True, True, True, True, False, False]
    assert seen[4].tolist() == [True, True, False, False, True, False]


def test_every_epoch_sees_every_example_once() -> None:
    lengths = [25 * (1 + number % 30) for number in range(300)]
    steps = plan_batches(lengths, DecoderRecipe(epochs=2, batch=16))
    assert sorted(index for step in steps for index in step) == sorted([*range(300)] * 2)


def test_a_checkpoint_with_missing_weights_is_refused(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    model = build_thinker(EDGE, tokenizer.get_vocab())
    save_checkpoint(tmp_path, model, tokenizer)
    weights = load_file(tmp_path / "model.safetensors")
    del weights[next(name for name in weights if name.endswith("q_proj.weight"))]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match="weights do not fit"):
        load_checkpoint(tmp_path)
