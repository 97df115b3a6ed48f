"""Do edge and cloud mean the same? Fingerprints of what must agree before token ids and features are exchanged."""

from __future__ import annotations

import hashlib

import torch

from specdec_cli.config.gate_file import tokenizer_fingerprint
from specdec_cli.models.family import AudioFeatures, AudioLanguageModel

_FRAMES = (37, 300)  # two lengths tell the number of audio tokens per frame


def of_tokenizer(model: AudioLanguageModel) -> str:
    """Equal where token ids mean the same pieces."""
    return tokenizer_fingerprint(model.tokenizer.get_vocab())


def of_features(model: AudioLanguageModel) -> str:
    """Equal where the same recording gives the same features."""
    return _hashed(model.feature_key())


def of_prompts(model: AudioLanguageModel) -> str:
    """Equal where chat template, placeholder and number of audio tokens are the same."""
    made = [
        model.build_prompt("How?", AudioFeatures(torch.empty(0, 0), frames), system).ids
        for frames in _FRAMES
        for system in (None, "Hear.")
    ]
    return _hashed(repr(made))


def combined(*parts: object) -> str:
    """One fingerprint of several things."""
    return _hashed("\n".join(map(str, parts)))


def _hashed(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:32]}"
