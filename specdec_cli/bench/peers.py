"""transformers' own `generate` on the very modules that this process has loaded, and on the same prompts.

Prompt and audio tensors are passed ready made, so that only the decoding is compared. Every call of a model is timed
by a hook: the first call of each model is audio encoding and prefill, the others are its steps.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import torch
import transformers

from specdec_cli.bench.taken import Taken
from specdec_cli.config.schema import ScoringConfig
from specdec_cli.decoding.scores import effective
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.processor import Prompt

DEAF_NOTE: Final = (
    "the assistant of generate(assistant_model=) gets no audio: its prefill drops the features, so that it drafts "
    "from the prompt alone"
)
VOCABULARY_NOTE: Final = (
    "generate(assistant_model=) refuses models whose output layers are padded to different sizes, although their "
    "token ids agree; for its runs the assistant states the size of the cloud's"
)


def generate(model: AudioLM, prompt: Prompt, settings: ScoringConfig, most: int, **more: Any) -> Taken:
    """What `generate` makes of a prompt, greedily and with the logits processors of `settings`.

    Args:
        model: any loaded model.
        prompt: the clip's prompt for it.
        settings: what is left open is as the checkpoint suggests.
        most: length limit, tokens.
        more: for `generate`.
    """
    module, eos_ids = model.module, model.processor.eos_ids
    scoring = effective(settings, model.processor)
    ids = torch.tensor([prompt.ids], device=model.device)
    audio = {name: _placed(values, module) for name, values in prompt.audio.items()}
    calls = _Calls([module, *([more["assistant_model"]] if "assistant_model" in more else [])])
    with torch.inference_mode(), calls.timed(), _hushed():
        started = time.perf_counter()
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
        written: list[int] = output[0, len(prompt.ids) :].tolist()
        wall_ms = (time.perf_counter() - started) * 1e3
    return Taken(tuple(written), wall_ms, calls.reading_ms, calls.steps_ms)


def generate_assisted(cloud: AudioLM, edge: AudioLM, prompt: Prompt, settings: ScoringConfig, most: int) -> Taken:
    """What `generate` of the cloud makes of it with the edge as its assistant, at the library's own settings."""
    with _same_vocabulary(edge.module, cloud.module):
        return generate(cloud, prompt, settings, most, assistant_model=edge.module)


def _placed(values: torch.Tensor, module: Any) -> torch.Tensor:
    return values.to(module.device, module.dtype if values.is_floating_point() else None)


class _Calls:
    """Times every call of some modules.

    On a GPU only the first one of each, which reads the prompt: to wait for each step would slow `generate` down.
    """

    def __init__(self, modules: Sequence[Any]) -> None:
        self._modules = modules
        self._waits = any(module.device.type == "cuda" for module in modules)
        self._read: set[int] = set()
        self._steps = 0.0
        self.reading_ms = 0.0

    @property
    def steps_ms(self) -> float | None:
        """Milliseconds in all calls but the first of each module; None if they were not timed."""
        return None if self._waits else self._steps

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Watches the modules for as long as it lasts."""
        with ExitStack() as stack:
            for module in self._modules:
                began: list[float] = []
                before = module.register_forward_pre_hook(lambda *_, b=began: b.append(time.perf_counter()))
                after = module.register_forward_hook(lambda m, *_, b=began: self._ended(m, b.pop()))
                stack.callback(before.remove)
                stack.callback(after.remove)
            yield

    def _ended(self, module: Any, began: float) -> None:
        first = id(module) not in self._read
        if first and self._waits:
            torch.cuda.synchronize(module.device)
        took = (time.perf_counter() - began) * 1e3
        if first:
            self._read.add(id(module))
            self.reading_ms += took
        else:
            self._steps += took


@contextmanager
def _same_vocabulary(assistant: Any, main: Any) -> Iterator[None]:
    """Lets the assistant state as many token ids as the main model, which is all that transformers compares."""
    config, stated = assistant.config.get_text_config(), assistant.config.get_text_config().vocab_size
    config.vocab_size = main.config.get_text_config().vocab_size
    try:
        yield
    finally:
        config.vocab_size = stated


@contextmanager
def _hushed() -> Iterator[None]:
    verbosity = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        transformers.logging.set_verbosity(verbosity)
