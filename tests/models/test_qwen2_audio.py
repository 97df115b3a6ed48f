"""Qwen2-Audio: features, tower, prompt and checkpoints equal transformers' own, and what does not fit is refused."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from specdec_cli.errors import AudioContentError, CheckpointError, DecodingError
from specdec_cli.models.family import AudioFeatures, LoadOptions, family_class
from specdec_cli.models.qwen2_audio import Qwen2Audio
from specdec_cli.models.session import Session, feed_together
from tests.models.checkpoints import Edit, edit_json, edit_weights, remove
from tests.tiny import TEMPLATE, tiny_clip
from tests.tiny_qwen2_audio import WINDOW_S, audio_module, audio_processor, tiny_audio_model, write_audio_checkpoint

WINDOW = WINDOW_S * 16000
# around every stride (160, 320, 640), and at the end of the window, where there is no frame behind the clip
SHORT = (321, 480, 481, 640, 641, 800, 801, 1279, 1280, 1281, 1600, 1601)
MIDDLE = (7919, 16000, 16037, 31999, 64001, 100_003)
LONG = tuple(WINDOW - n for n in (1000, 641, 640, 639, 481, 480, 361, 360, 321, 320, 319, 201, 200, 161, 160, 1, 0))


def _clip(samples: int) -> npt.NDArray[np.float32]:
    """A noisy glide that gets louder, so that its end holds the maximum and the frame behind it some sound."""
    clip = tiny_clip(0, (samples + 1) / 16000)[:samples]
    return (clip * np.linspace(0.01, 1, samples)).astype(np.float32)


def _padded(clip: npt.NDArray[np.float32]) -> dict[str, torch.Tensor]:
    found: Any = audio_processor().feature_extractor(
        clip, sampling_rate=16000, padding="max_length", return_attention_mask=True, return_tensors="pt"
    )
    return {"input_features": found.input_features, "feature_attention_mask": found.attention_mask}


def _embedded(model: Qwen2Audio, ids: tuple[int, ...], heard: dict[str, torch.Tensor]) -> torch.Tensor:
    """What transformers' own forward puts at the placeholders: [audio tokens, hidden]."""
    seen: list[torch.Tensor] = []
    hook = model.module.model.language_model.register_forward_pre_hook(
        lambda _, args, kwargs: seen.append(kwargs["inputs_embeds"]), with_kwargs=True
    )
    try:
        model.module(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), **heard)
    finally:
        hook.remove()
    return seen[0][0, torch.tensor(ids) == model.placeholder_ids[0]]


@pytest.mark.parametrize("samples", [*SHORT, *MIDDLE, *LONG])
def test_features_and_audio_embeddings_equal_the_padded_ones(samples: int) -> None:
    model, clip = tiny_audio_model(1), _clip(samples)
    features, heard = model.features(clip), _padded(clip)
    assert features.frames == int(heard["feature_attention_mask"].sum())
    wanted = heard["input_features"][0, :, : features.frames + 2]
    torch.testing.assert_close(features.values, wanted, rtol=0, atol=1e-6)
    found = model.encode(features)
    assert len(found) == model.audio_tokens(features.frames)
    prompt = model.build_prompt("how?", features)
    torch.testing.assert_close(found, _embedded(model, prompt.ids, heard), rtol=0, atol=1e-4)


def test_what_follows_the_convolutions_end_is_heard() -> None:
    """The two frames behind the clip matter: without them, the last audio token of this clip would be another."""
    model = tiny_audio_model(1)
    features = model.features(_clip(16000 - 160))  # an odd number of frames: the last position sees two behind
    cut = AudioFeatures(features.values[:, : features.frames], features.frames)
    difference = (model.encode(features) - model.encode(cut)).abs().amax(dim=-1)
    assert difference[-1] > 1e-2


def test_the_number_of_audio_tokens_is_transformers_own() -> None:
    model = tiny_audio_model(1)
    tower = model.module.model.audio_tower
    for frames in [*range(1, 60), 801, 1000, 2998, 2999, 3000]:
        assert model.audio_tokens(frames) == int(tower._get_feat_extract_output_lengths(torch.tensor(frames))[1])
    assert [model.audio_tokens(100 * seconds) for seconds in (1, 2, 3, 30)] == [25, 50, 75, 750]


def test_audio_beyond_the_window_is_refused_not_cut() -> None:
    model = tiny_audio_model(1)
    assert model.window_s == 30
    with pytest.raises(AudioContentError, match="takes mono audio of at most 30 s"):
        model.features(np.zeros(WINDOW + 1, dtype=np.float32))


def test_the_prompt_is_the_one_that_transformers_makes() -> None:
    model, clip = tiny_audio_model(1), tiny_clip(2, 1.3)
    talk = [{"role": "user", "content": [{"type": "audio", "audio_url": "x"}, {"type": "text", "text": "描述 it"}]}]
    text = audio_processor().apply_chat_template(talk, tokenize=False, add_generation_prompt=True)
    wanted = audio_processor()(text=text, audio=[clip], sampling_rate=16000, return_tensors="pt").input_ids[0].tolist()
    assert list(model.build_prompt("描述 it", model.features(clip)).ids) == wanted


def test_no_placeholder_is_ever_said() -> None:
    model = tiny_audio_model(1)
    (placeholder,) = model.placeholder_ids
    scores = Session(model, model.build_prompt("x", model.features(tiny_clip(1))), 8).advance([5], 1)
    assert scores[0, placeholder] == -torch.inf
    assert int(scores.isfinite().sum()) == model.vocab_size - 1


@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="equal bits are promised for MKL's kernels only")
@pytest.mark.parametrize("seed", range(3))
def test_scores_are_bit_equal_in_any_company(seed: int) -> None:
    model, rng = tiny_audio_model(seed, layers=1 + seed), random.Random(seed)
    text = tuple(rng.randrange(256) for _ in range(12))
    prompts = [model.build_prompt("say", model.features(tiny_clip(number, 0.4 + 0.3 * number))) for number in range(4)]
    alone = [Session(model, prompt, 20).advance(text[: 4 + number], 3) for number, prompt in enumerate(prompts)]
    sessions = [Session(model, prompt, 20) for prompt in prompts]
    together = feed_together([session.ask(text[: 4 + number], 3) for number, session in enumerate(sessions)])
    for mine, theirs in zip(together, alone, strict=True):
        assert not isinstance(mine, DecodingError)
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
def test_every_kernel_gives_the_scores_of_transformers_own_forward(kernel: str) -> None:
    module = audio_module(4)
    module.set_attn_implementation(kernel)
    model, clip = Qwen2Audio(kernel, module, audio_processor()), tiny_clip(3, 1.1)
    prompt = model.build_prompt("say", model.features(clip))
    ids = torch.tensor([[*prompt.ids, 7, 8, 9]])
    wanted = module(input_ids=ids, attention_mask=torch.ones_like(ids), **_padded(clip)).logits[0, -3:]
    found = Session(model, prompt, 8).advance((7, 8, 9), 3)
    banned = list(model.placeholder_ids)
    wanted[:, banned] = -torch.inf
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-3)


# --- checkpoints ---


def _load(folder: Path, **options: Any) -> Qwen2Audio:
    model = family_class("qwen2-audio").load(LoadOptions(str(folder), name="it", **{"device": "cpu", **options}))
    assert isinstance(model, Qwen2Audio)
    return model


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint as published, in three files."""
    return write_audio_checkpoint(tmp_path_factory.mktemp("hub") / "audio", audio_module(11), shards=3)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same in one file."""
    return write_audio_checkpoint(tmp_path_factory.mktemp("hub") / "audio", audio_module(11))


def _damaged(source: Path, folder: Path, *edits: Edit) -> Path:
    shutil.copytree(source, folder)
    for edit in edits:
        edit(folder)
    return folder


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_hub_folder_in_shards_loads_bit_for_bit(hub: Path, dtype: str) -> None:
    model = _load(hub, dtype=dtype)
    wanted = audio_module(11).to(getattr(torch, dtype)).state_dict()
    found = model.module.state_dict()
    assert set(found) == set(wanted)
    assert all(torch.equal(found[key], wanted[key]) for key in wanted)
    assert model.describe() == {"name": "it", "dtype": dtype, "device": "cpu", "weights": model.weights}
    assert (model.weights or "").startswith("sha256:")
    assert (model.eos_ids, model.placeholder_ids, model.sampling_rate) == ((256,), (259,), 16000)


def test_what_transformers_saves_loads_bit_for_bit(tmp_path: Path) -> None:
    module = audio_module(11)
    module.save_pretrained(tmp_path)
    audio_processor().save_pretrained(tmp_path)
    found = _load(tmp_path).module.state_dict()
    assert all(torch.equal(found[key], weight) for key, weight in audio_module(11).state_dict().items())


def test_a_chat_template_of_the_checkpoint_wins_over_the_published_one(whole: Path, tmp_path: Path) -> None:
    def rewrite(folder: Path) -> None:
        (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")

    features = AudioFeatures(torch.empty(0, 0), 100)
    own = _load(_damaged(whole, tmp_path / "own", rewrite))
    without = _load(_damaged(whole, tmp_path / "without", remove("chat_template.jinja")))
    assert "Audio 1: " not in own.tokenizer.decode(own.build_prompt("x", features).ids)
    assert "Audio 1: " in without.tokenizer.decode(without.build_prompt("x", features).ids)


def test_eos_ids_are_those_of_the_generation_config(whole: Path, tmp_path: Path) -> None:
    folder = _damaged(whole, tmp_path / "m", edit_json("generation_config.json", eos_token_id=[9, 7]))
    assert _load(folder).eos_ids == (7, 9)


def _drop(tensors: dict[str, torch.Tensor]) -> None:
    del tensors["multi_modal_projector.linear.bias"]


def _add(tensors: dict[str, torch.Tensor]) -> None:
    tensors["audio_tower.layers.7.fc1.weight"] = torch.ones(2, 2)


def _reshape(tensors: dict[str, torch.Tensor]) -> None:
    tensors["language_model.model.norm.weight"] = torch.ones(3)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (edit_weights(_drop), "it lacks weights: model.multi_modal_projector.linear.bias"),
        (edit_weights(_add), "it has unexpected weights"),
        (edit_weights(_reshape), "it has misshapen weights: model.language_model.norm.weight"),
        (edit_json("config.json", audio_config__encoder_layers=2), "it lacks weights: model.audio_tower.layers.1"),
        (edit_json("config.json", audio_config=None), "has no audio_config"),
        (edit_json("config.json", model_type="qwen2"), "the family 'qwen2-audio' loads"),
        (edit_json("config.json", audio_config__num_mel_bins=8), "misshapen weights: model.audio_tower.conv1"),
        (
            edit_json("processor_config.json", feature_extractor__feature_size=80),
            "it hears 16 mel bins, but its feature extractor gives 80",
        ),
        (
            edit_json("processor_config.json", feature_extractor__chunk_length=10),
            "it hears windows of 3000 mel frames, but its feature extractor gives 1000",
        ),
        (edit_json("generation_config.json", eos_token_id=300), "has the eos_token_id 300"),
    ],
)
def test_what_does_not_fit_is_refused(whole: Path, tmp_path: Path, edit: Edit, said: str) -> None:
    with pytest.raises(CheckpointError, match=said):
        _load(_damaged(whole, tmp_path / "m", edit))


def test_a_missing_shard_is_named(hub: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="lacks 1 of 3 weight files: model-00002-of-00003"):
        _load(_damaged(hub, tmp_path / "m", remove("model-00002-of-00003.safetensors")))


def test_the_two_families_refuse_each_others_checkpoints(whole: Path) -> None:
    with pytest.raises(CheckpointError, match=r"'qwen2_audio', but the family 'qwen2.5-omni' loads") as error:
        family_class("qwen2.5-omni").load(LoadOptions(str(whole), device="cpu"))
    assert "Set `family`" in str(error.value.hint)
