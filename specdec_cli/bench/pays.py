"""How fast two models are against the cloud alone on this machine, as expected from single forwards.

A verified block of k tokens, each accepted with probability a, adds E(k) = 1 + a + ... + a^k tokens on average
(Leviathan et al. 2023, eq. 1). It takes k steps of the edge and a forward of the cloud over k + 1 tokens, where the
cloud alone makes E(k) steps. In hybrid mode an unverified block adds k tokens for k steps of the edge.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from typing import Final

import torch

from specdec_cli.decoding.pick import choices
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.processor import test_sound
from specdec_cli.models.session import Session

ACCEPTED: Final = 0.8  # of drafted tokens: an assumption; `specdec bench` measures it
VERIFIED: Final = 0.3  # of blocks in hybrid mode: an assumption, too
BLOCK: Final = 5  # tokens of the verification that is measured
_LONGEST: Final = 16  # tokens of a block
_TIMES: Final = 7  # forwards; the first two pick kernels, and the median counts


def forward_ms(model: AudioLM, tokens: int) -> float:
    """Milliseconds of a forward of this many tokens behind a prompt with a second of sound, until it is read."""
    processor = model.processor
    barred = {*processor.banned_ids, *processor.eos_ids}
    token = next(id_ for id_ in range(1, processor.vocab_size) if id_ not in barred)
    prompt = processor.prompt(test_sound(1.0, processor.sampling_rate), "How?")
    session = Session(model, prompt, (_TIMES + 2) * tokens)
    taken = list[float]()
    for end in range(0, (_TIMES + 2) * tokens + 1, tokens):
        started = time.perf_counter()
        with torch.inference_mode():
            choices(session.logits([token] * end, min(tokens, end + 1)), model.name)
        taken.append((time.perf_counter() - started) * 1e3)
    return statistics.median(taken[3:])


def expected_gains(edge_ms: float, cloud_ms: float, verification_ms: float) -> dict[str, float]:
    """Tokens/s of lossless and hybrid over those of the cloud alone, each with its best block length.

    Args:
        edge_ms, cloud_ms: a step of each.
        verification_ms: a forward of the cloud over `BLOCK` + 1 tokens.
    """
    a_token_ms = max(verification_ms - cloud_ms, 0.0) / BLOCK
    best = {"lossless": 0.0, "hybrid": 0.0}
    for mode, share in (("lossless", 1.0), ("hybrid", VERIFIED)):
        for k in range(1, _LONGEST + 1):
            added = sum(ACCEPTED**place for place in range(k + 1))
            tokens = share * added + (1 - share) * k
            ms = k * edge_ms + share * (cloud_ms + k * a_token_ms)
            best[mode] = max(best[mode], tokens * cloud_ms / ms)
    return best


def advice(gains: Mapping[str, float]) -> str:
    """Which mode to use, by the tokens/s of lossless and hybrid over cloud-only's; "" where both are faster."""
    slower = [name for name, gain in gains.items() if gain <= 1.0]
    if len(slower) == len(gains):
        return " Speculation does not pay here: use --mode cloud."
    if slower:
        return f" For speed, use {'hybrid' if 'lossless' in slower else 'lossless'} or cloud, not {slower[0]}."
    return ""


def what_to_expect(edge: AudioLM, cloud: AudioLM) -> str:
    """How fast lossless and hybrid would be with two loaded models on this machine, in a sentence or two."""
    edge_ms, cloud_ms, verification_ms = forward_ms(edge, 1), forward_ms(cloud, 1), forward_ms(cloud, BLOCK + 1)
    gains = expected_gains(edge_ms, cloud_ms, verification_ms)
    return (
        f"an edge step takes {edge_ms:.1f} ms, a step of the cloud {cloud_ms:.1f} ms, a verification of {BLOCK} tokens "
        f"{verification_ms:.1f} ms. With {ACCEPTED:.0%} of drafted tokens accepted, lossless would write "
        f"{gains['lossless']:.2f} times cloud-only's tokens/s, and hybrid, with {VERIFIED:.0%} of blocks verified, "
        f"{gains['hybrid']:.2f} times.{advice(gains)} specdec bench measures it"
    )
