"""Porting random Whisper-shaped weights into the Omni tower."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import WhisperConfig, WhisperFeatureExtractor, WhisperModel

from tests.training.conftest import tone
from training.features import log_mel, pooled_length
from training.tower import build_tower, encode, pad_mels
from training.whisper import WhisperFormatError, from_ctranslate2, port, read_ctranslate2, read_encoder_state


@pytest.fixture(scope="module")
def whisper() -> WhisperModel:
    torch.manual_seed(0)
    config = WhisperConfig(
        d_model=512,
        encoder_layers=2,
        encoder_attention_heads=8,
        encoder_ffn_dim=2048,
        decoder_layers=1,
        decoder_attention_heads=8,
        decoder_ffn_dim=64,
        vocab_size=64,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    return WhisperModel(config).eval()


def test_a_port_computes_what_whisper_computes(whisper: WhisperModel) -> None:
    """On a clip of the full 30 s, where both see the same frames."""
    tower = build_tower(2).eval()
    port(whisper.encoder.state_dict(), tower)
    mel = torch.randn(1, 80, 3000, generator=torch.Generator().manual_seed(1)) * 0.3
    with torch.inference_mode():
        states, lengths = encode(tower, mel, torch.tensor([3000]))
        expected = torch.nn.functional.avg_pool1d(_before_final_norm(whisper, mel)[0].T[None], 2)[0].T
    assert lengths.tolist() == [750]
    assert states.shape == (1, 750, 512)
    assert torch.allclose(states[0], expected, atol=2e-4)


def _before_final_norm(whisper: WhisperModel, mel: torch.Tensor) -> torch.Tensor:
    caught: list[torch.Tensor] = []
    handle = whisper.encoder.layer_norm.register_forward_pre_hook(lambda _, inputs: caught.append(inputs[0]))
    whisper.encoder(mel)
    handle.remove()
    return caught[0]


def test_batched_encoding_equals_the_model_s_own_forward(whisper: WhisperModel) -> None:
    tower = build_tower(2).eval()
    port(whisper.encoder.state_dict(), tower)
    mels = [log_mel(tone(140, 1.0)), log_mel(tone(200, 1.7))]
    with torch.inference_mode():
        states, lengths = encode(tower, *pad_mels(mels))
        for mel, row, length in zip(mels, states, lengths.tolist(), strict=True):
            own = tower(mel, feature_lens=torch.tensor([mel.shape[1]])).last_hidden_state
            assert len(own) == length == pooled_length(mel.shape[1])
            assert torch.allclose(tower.proj(tower.ln_post(row[:length])), own, atol=1e-3)


def test_features_equal_the_extractor_s() -> None:
    waveform = tone(130, 1.234)
    padded = WhisperFeatureExtractor()(waveform, sampling_rate=16_000, return_tensors="pt").input_features[0]
    mel = log_mel(waveform)
    assert mel.shape == (80, 124)
    assert torch.allclose(mel, padded[:, :124], atol=1e-5)


def test_only_the_layers_get_a_gradient() -> None:
    tower = build_tower(2)
    states, _ = encode(tower, *pad_mels([log_mel(tone(140, 1.0))]))
    torch.autograd.backward(states.square().sum())
    assert tower.conv1.weight.grad is None
    assert all(layer.fc1.weight.grad is not None for layer in tower.layers)


def _write_ctranslate2(path: Path, tensors: dict[str, np.ndarray]) -> None:
    def text(value: str) -> bytes:
        return struct.pack("<H", len(value) + 1) + value.encode() + b"\0"

    content = struct.pack("<I", 6) + text("WhisperSpec") + struct.pack("<II", 3, len(tensors))
    for name, value in tensors.items():
        content += text(name) + struct.pack("<B", value.ndim) + struct.pack(f"<{value.ndim}I", *value.shape)
        content += struct.pack("<BI", {"float32": 0, "float16": 4}[value.dtype.name], value.nbytes) + value.tobytes()
    path.write_bytes(content)


def test_a_ctranslate2_file_gives_the_same_state(whisper: WhisperModel, tmp_path: Path) -> None:
    state = whisper.encoder.state_dict()
    tensors = {f"encoder/{name.replace('.', '/')}": state[name].numpy() for name in state if name.startswith("conv")}
    for layer in range(2):
        own, target = f"layers.{layer}.", f"encoder/layer_{layer}/"
        for part in ("weight", "bias"):
            zero = torch.zeros(512)
            stacked = [state.get(f"{own}self_attn.{name}_proj.{part}", zero) for name in "qkv"]
            tensors[f"{target}self_attention/linear_0/{part}"] = torch.cat(stacked).numpy()
            tensors[f"{target}self_attention/linear_1/{part}"] = state[f"{own}self_attn.out_proj.{part}"].numpy()
            tensors[f"{target}ffn/linear_0/{part}"] = state[f"{own}fc1.{part}"].numpy()
            tensors[f"{target}ffn/linear_1/{part}"] = state[f"{own}fc2.{part}"].numpy()
        for norm, name in (("self_attention", "self_attn_layer_norm"), ("ffn", "final_layer_norm")):
            tensors[f"{target}{norm}/layer_norm/gamma"] = state[f"{own}{name}.weight"].numpy()
            tensors[f"{target}{norm}/layer_norm/beta"] = state[f"{own}{name}.bias"].numpy()
    tensors["encoder/layer_norm/gamma"] = state["layer_norm.weight"].numpy()
    tensors["encoder/layer_norm/beta"] = state["layer_norm.bias"].numpy()
    _write_ctranslate2(tmp_path / "model.bin", tensors)
    read = from_ctranslate2(read_ctranslate2(tmp_path / "model.bin"))
    assert all(torch.equal(read[name], state[name]) for name in state if name in read)
    assert set(state) - set(read) == {"embed_positions.weight"}
    whisper.save_pretrained(tmp_path / "hub")
    assert torch.equal(read_encoder_state(str(tmp_path / "hub"))["conv1.weight"], read["conv1.weight"])


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(struct.pack("<IH", 6, 4) + b"Bert")
    with pytest.raises(WhisperFormatError, match="not a CTranslate2 Whisper"):
        read_ctranslate2(tmp_path / "model.bin")
