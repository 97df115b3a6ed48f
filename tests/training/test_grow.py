"""A grown decoder starts as the function it grew from."""

from __future__ import annotations

import torch

from training.architecture import CLOUD, SEED, build_thinker, grow_decoder
from training.tokenizer import train_tokenizer


def test_growing_changes_nothing_at_first() -> None:
    torch.manual_seed(0)
    vocabulary = train_tokenizer().get_vocab()
    seed, cloud = build_thinker(SEED, vocabulary).eval(), build_thinker(CLOUD, vocabulary).eval()
    grow_decoder(seed, cloud)
    inputs = torch.randn(1, 20, SEED.hidden, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        logits = [
            model.lm_head(model.model.language_model(inputs_embeds=inputs).last_hidden_state) for model in (seed, cloud)
        ]
    assert torch.allclose(logits[0], logits[1][..., : logits[0].shape[-1]], atol=1e-5)
    assert len(cloud.model.language_model.layers) == CLOUD.layers
