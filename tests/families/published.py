"""transformers' own processors, reduced to their speech parts: image and video processors need torchvision."""

from __future__ import annotations

from typing import Any

from transformers import ProcessorMixin
from transformers.models.gemma4.processing_gemma4 import Gemma4Processor
from transformers.models.gemma4_unified.processing_gemma4_unified import Gemma4UnifiedProcessor
from transformers.models.qwen2_5_omni.processing_qwen2_5_omni import Qwen2_5OmniProcessor
from transformers.models.qwen3_omni_moe.processing_qwen3_omni_moe import Qwen3OmniMoeProcessor

from specdec_cli.models.processor import Processor


def _without_images(self: Any, feature_extractor: Any, tokenizer: Any, chat_template: str | None = None) -> None:
    """The part of the published `__init__` that speech needs."""
    for name in ("audio_token", "audio_bos_token", "audio_eos_token", "boa_token", "eoa_token"):
        setattr(self, name, getattr(tokenizer, name, None))
    self.audio_token_id = tokenizer.convert_tokens_to_ids(tokenizer.audio_token)
    self.image_token = self.video_token = None
    ProcessorMixin.__init__(self, feature_extractor, tokenizer, chat_template=chat_template)


_REDUCED = {
    "qwen2.5-omni": Qwen2_5OmniProcessor,
    "qwen3-omni": Qwen3OmniMoeProcessor,
    "gemma4": Gemma4Processor,
    "gemma4-unified": Gemma4UnifiedProcessor,
}


def published(of: Processor) -> Any:
    """The published processor with the same parts; for the families that use it as it is, a model's own."""
    parts, base = of.parts, _REDUCED.get(of.family.name)
    if base is None:
        return parts
    reduced = type(base.__name__, (base,), {"__init__": _without_images})
    return reduced(parts.feature_extractor, parts.tokenizer, chat_template=parts.chat_template)
