"""transformers' own `generate` on the loaded modules, with the same prompts.

Prompt and audio tensors are passed ready made, so that only the decoding is compared. The end of the first forward,
seen by a hook, is taken for the end of audio encoding and prefill.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import transformers

from specdec_cli.bench.timing import Timing, wait_for
from specdec_cli.config.schema import ScoringConfig
from specdec_cli.decoding.scores import effective
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.processor import Prompt


def generate(model: AudioLM, prompt: Prompt, settings: ScoringConfig, most: int, **more: Any) -> Timing:
    """The caption by `generate`, greedily and with the logits processors of `settings`; at most `most` tokens.

    What `settings` leave open is as the checkpoint suggests; `more` goes to `generate`.
    """
    module, eos_ids = model.module, model.processor.eos_ids
    scoring = effective(settings, model.processor)
    ids = torch.tensor([prompt.ids], device=model.device)
    audio = {
        name: values.to(module.device, module.dtype if values.is_floating_point() else None)
        for name, values in prompt.audio.items()
    }
    prefill_ms: list[float] = []
    started = time.perf_counter()

    def ended(*_: object) -> None:
        if not prefill_ms:
            wait_for(model.device)
            prefill_ms.append((time.perf_counter() - started) * 1e3)

    with torch.inference_mode(), _without_warnings(), ExitStack() as after:
        after.callback(module.register_forward_hook(ended).remove)
        output = module.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            **audio,
            do_sample=False,
            max_new_tokens=most,
            min_new_tokens=scoring.min_new_tokens,
            repetition_penalty=scoring.repetition_penalty,
            no_repeat_ngram_size=scoring.no_repeat_ngram,
            eos_token_id=list(eos_ids),
            pad_token_id=eos_ids[0],
            **more,
        )
        text: list[int] = output[0, len(prompt.ids) :].tolist()
        wall_ms = (time.perf_counter() - started) * 1e3
    return Timing(tuple(text), wall_ms, prefill_ms[0], steps_ms=None)


@contextmanager
def _without_warnings() -> Iterator[None]:
    verbosity = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        transformers.logging.set_verbosity(verbosity)
