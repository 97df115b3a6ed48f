"""Stand-ins for packages that a machine may lack, behind the real classes of transformers.

torchaudio: one class, a mel spectrogram. mistral-common: the chat format that Voxtral's processor gets from it, on the
ids of the same tekken.json; where mistral-common is installed the real one is used. torchvision: processors without
their image parts.
"""

import base64
import io
import json
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
import transformers as tf
from transformers import BatchFeature
from transformers.audio_utils import mel_filter_bank
from transformers.models.gemma4.processing_gemma4 import Gemma4Processor
from transformers.models.gemma4_unified.processing_gemma4_unified import Gemma4UnifiedProcessor
from transformers.models.granite_speech import feature_extraction_granite_speech as granite_features
from transformers.models.granite_speech.processing_granite_speech import GraniteSpeechProcessor
from transformers.models.qwen2_5_omni.processing_qwen2_5_omni import Qwen2_5OmniProcessor
from transformers.models.qwen3_omni_moe.processing_qwen3_omni_moe import Qwen3OmniMoeProcessor
from transformers.models.voxtral.processing_voxtral import VoxtralProcessor

from specdec_cli.models.families import FAMILIES
from specdec_cli.models.processor import Processor
from tests.support.kinds import KINDS

HAS_MISTRAL = find_spec("mistral_common") is not None
HAS_TORCHAUDIO = find_spec("torchaudio") is not None
AUDIO, BEGIN_AUDIO = 24, 25


class MelSpectrogram(torch.nn.Module):
    """What Granite's feature extractor uses of torchaudio: a power spectrogram in HTK mel bins."""

    def __init__(self, sample_rate: int, n_fft: int, win_length: int, hop_length: int, n_mels: int) -> None:
        super().__init__()
        self._sizes = (n_fft, hop_length, win_length)
        filters = mel_filter_bank(n_fft // 2 + 1, n_mels, 0.0, sample_rate / 2, sample_rate, None, "htk")
        self._filters = torch.from_numpy(filters.astype(np.float32))

    def forward(self, audio: torch.Tensor) -> torch.Tensor:
        """Samples [batch, n] -> [batch, mels, 1 + n // hop]."""
        n_fft, hop, width = self._sizes
        window = torch.hann_window(width)
        spectrum = torch.stft(audio, n_fft, hop, width, window, return_complex=True, pad_mode="reflect")
        return (spectrum.abs() ** 2).transpose(-1, -2).matmul(self._filters).transpose(-1, -2)


class StandInVoxtralProcessor(VoxtralProcessor):
    """transformers' class over a tokenizer that needs no mistral-common."""

    def __init__(self, feature_extractor: Any, tokenizer: Any) -> None:
        self.audio_token_id, self.audio_token = AUDIO, "[AUDIO]"
        tf.ProcessorMixin.__init__(self, feature_extractor, tokenizer)

    def apply_chat_template(self, conversation: list[dict[str, Any]], **_: Any) -> BatchFeature:
        """[INST], audio and text parts, [/INST]; features by transformers' own code."""
        ids, clips = [1, 3], []
        for part in conversation[-1]["content"]:
            if part["type"] == "audio":
                samples, rate = soundfile.read(io.BytesIO(base64.b64decode(part["base64"])), dtype="float32")
                assert rate == 16000
                clips.append(np.pad(samples, (0, -len(samples) % 480_000)))
                ids += [BEGIN_AUDIO, *[AUDIO] * (len(clips[-1]) // 1280)]
            else:
                ids += self.tokenizer(part["text"], add_special_tokens=False).input_ids
        kwargs = {key: value for key, value in self.audio_kwargs.items() if key != "max_source_positions"}
        features = self._retrieve_input_features(clips, 3000, **kwargs)
        return BatchFeature({"input_ids": torch.tensor([[*ids, 4]]), "input_features": features})


def install(patch: pytest.MonkeyPatch) -> None:
    """Puts the stand-ins in place of what is not installed."""
    if not HAS_TORCHAUDIO:
        audio = SimpleNamespace(transforms=SimpleNamespace(MelSpectrogram=MelSpectrogram))
        patch.setattr(granite_features, "torchaudio", audio, raising=False)
        patch.setattr(granite_features, "requires_backends", lambda *_: None)
        patch.setattr(FAMILIES["granite-speech"], "needs", ())
        patch.setattr(FAMILIES["granite-speech"], "processor", _granite_processor)
    if not HAS_MISTRAL:
        patch.setattr(FAMILIES["voxtral"], "needs", ())
        patch.setattr(FAMILIES["voxtral"], "processor", _voxtral_processor)


def _granite_processor(source: str, **_: Any) -> GraniteSpeechProcessor:
    settings = json.loads((Path(source) / "preprocessor_config.json").read_text(encoding="utf-8"))
    extractor = granite_features.GraniteSpeechFeatureExtractor(**settings)
    tokenizer = tf.AutoTokenizer.from_pretrained(source)
    template = (Path(source) / "chat_template.jinja").read_text(encoding="utf-8")
    # the check of argument types looks classes up by name, and finds placeholders where torchaudio is missing
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GraniteSpeechProcessor, "check_argument_for_proper_class", lambda *_: None)
        return GraniteSpeechProcessor(extractor, tokenizer, chat_template=template)


def _voxtral_processor(source: str, **_: Any) -> StandInVoxtralProcessor:
    extractor = tf.WhisperFeatureExtractor.from_pretrained(source)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VoxtralProcessor, "check_argument_for_proper_class", lambda *_: None)
        return StandInVoxtralProcessor(extractor, KINDS["voxtral"].tokenizer())


def _without_images(self: Any, feature_extractor: Any, tokenizer: Any, chat_template: str | None = None) -> None:
    """The part of the published `__init__` that speech needs: image and video processors need torchvision."""
    for name in ("audio_token", "audio_bos_token", "audio_eos_token", "boa_token", "eoa_token"):
        setattr(self, name, getattr(tokenizer, name, None))
    self.audio_token_id = tokenizer.convert_tokens_to_ids(tokenizer.audio_token)
    self.image_token = self.video_token = None
    tf.ProcessorMixin.__init__(self, feature_extractor, tokenizer, chat_template=chat_template)


_REDUCED = {
    "qwen2.5-omni": Qwen2_5OmniProcessor,
    "qwen3-omni": Qwen3OmniMoeProcessor,
    "gemma4": Gemma4Processor,
    "gemma4-unified": Gemma4UnifiedProcessor,
}


def published(of: Processor) -> Any:
    """transformers' own processor with the same parts; for the families that use it as it is, a model's own."""
    parts, base = of.parts, _REDUCED.get(of.family.name)
    if base is None:
        return parts
    reduced = type(base.__name__, (base,), {"__init__": _without_images})
    return reduced(parts.feature_extractor, parts.tokenizer, chat_template=parts.chat_template)
