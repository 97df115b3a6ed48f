"""transformers' own `generate` on the very modules that this process has loaded, and on the same prompts.

Features and prompt are handed over ready made, so that only the decoding is compared. Every call of a model is timed
by a hook: the first call of each model reads the clip and the prompt, the others are its steps.
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
from specdec_cli.decoding.options import DecodingOptions
from specdec_cli.models.family import AudioLanguageModel, PromptInputs
from specdec_cli.models.qwen_omni import QwenOmniThinker

DEAF_NOTE: Final = (
    "the assistant of generate(assistant_model=) does not hear the recording: its prefill drops the features, "
    "so that it drafts from the prompt alone"
)
VOCABULARY_NOTE: Final = (
    "generate(assistant_model=) refuses models whose output layers are padded to different sizes, although their "
    "token ids agree; for its runs the assistant states the size of the cloud's"
)


def module_of(model: AudioLanguageModel | None) -> Any | None:
    """The transformers module behind `model`, if `generate` below knows how to call it."""
    return model.module if isinstance(model, QwenOmniThinker) else None


def generate(module: Any, inputs: PromptInputs, options: DecodingOptions, eos_ids: Sequence[int], **more: Any) -> Taken:
    """What `generate` makes of a prompt, greedily and with the processors that `options` ask for.

    Args:
        module: of the model.
        inputs: the clip's prompt for it.
        options: the run's settings; stop rules other than eos and the length limit are not transformers'.
        eos_ids: ids that end the text.
        more: for `generate`.
    """
    device = module.device
    ids = torch.tensor([inputs.ids], device=device)
    frames = torch.ones(1, inputs.features.frames, dtype=torch.long, device=device)
    calls = _Calls([module, *([more["assistant_model"]] if "assistant_model" in more else [])])
    with torch.inference_mode(), calls.timed(), _hushed():
        started = time.perf_counter()
        output = module.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            input_features=inputs.features.values[None].to(device, module.dtype),
            feature_attention_mask=frames,
            do_sample=False,
            max_new_tokens=options.max_new_tokens,
            min_new_tokens=options.min_new_tokens,
            repetition_penalty=options.repetition_penalty,
            no_repeat_ngram_size=options.no_repeat_ngram,
            eos_token_id=list(eos_ids),
            pad_token_id=eos_ids[0],
            **more,
        )
        written: list[int] = output[0, len(inputs.ids) :].tolist()
        wall_ms = (time.perf_counter() - started) * 1e3
    return Taken(tuple(written), wall_ms, calls.reading_ms, calls.steps_ms)


def generate_assisted(
    cloud: Any, edge: Any, inputs: PromptInputs, options: DecodingOptions, eos_ids: Sequence[int]
) -> Taken:
    """What `generate` of the cloud makes of it with the edge as its assistant, at the library's own settings."""
    with _same_vocabulary(edge, cloud):
        return generate(cloud, inputs, options, eos_ids, assistant_model=edge)


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
