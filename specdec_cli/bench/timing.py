"""How long a clip takes, by our loops and by transformers' own `generate`."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import torch

from specdec_cli.captioner import Captioner
from specdec_cli.config.schema import DecodingConfig
from specdec_cli.decoding.loop import Loop
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.processor import Prompt, effective
from specdec_cli.types import Finished, Round


@dataclass(frozen=True, slots=True, eq=False)
class BenchClip:
    """A recording, ready for both models: the prompt of each, audio tensors included."""

    file: str
    duration_s: float
    edge: Prompt
    cloud: Prompt


@dataclass(frozen=True, slots=True)
class CaptionTiming:
    """A measurement of one caption."""

    ids: tuple[int, ...]  # eos included if it was reached
    wall_ms: float  # from the prompt to the last token
    prefill_ms: float | None = None  # of that, in audio encoding and prefill; None: forwards were not timed one by one
    forwards_ms: float | None = None  # of that, in all forwards, `prefill_ms` included; None alike
    rounds: int = 0
    escalated: int = 0  # rounds that the cloud verified
    cloud_ms: float = 0.0  # in the cloud's forwards
    verified: int = 0  # drafted tokens verified one after the other: those accepted, and the first that was not
    accepted: int = 0
    forwards: int = 0  # of both models
    saved: int = 0  # forwards, by guesses

    @property
    def tokens_per_s(self) -> float:
        """Tokens per second, everything included."""
        return 1e3 * len(self.ids) / self.wall_ms


def caption(captioner: Captioner, clip: BenchClip) -> CaptionTiming:
    """Captions `clip` in the captioner's mode, with fresh sessions."""
    pair = captioner.pair
    edge, cloud = (clip.edge if pair.edge else None), (clip.cloud if pair.cloud else None)
    started = time.perf_counter()
    loop = captioner.loop((edge, cloud))
    return drive(loop, (time.perf_counter() - started) * 1e3)


def drive(loop: Loop, built_ms: float = 0.0) -> CaptionTiming:
    """Runs a loop, which took `built_ms` to put together, to its end."""
    events = list(loop.run())
    rounds, finished = [event for event in events if isinstance(event, Round)], events[-1]
    assert isinstance(finished, Finished)
    escalated = [event for event in rounds if event.escalated]
    works = [work for work in (finished.edge, finished.cloud) if work is not None]
    return CaptionTiming(
        ids=finished.token_ids,
        wall_ms=built_ms + finished.total_ms,
        prefill_ms=sum(work.reading_ms for work in works),
        forwards_ms=sum(work.total_ms for work in works),
        rounds=len(rounds),
        escalated=len(escalated),
        cloud_ms=finished.cloud.total_ms if finished.cloud is not None else 0.0,
        # after the first rejected token nothing was verified (Leviathan et al. 2023, def. 3.1)
        verified=sum(min(event.accepted + 1, len(event.draft_ids)) for event in escalated),
        accepted=sum(event.accepted for event in escalated),
        forwards=sum(work.forwards for work in works),
        saved=finished.guesses_kept or 0,
    )


def generate(model: AudioLM, prompt: Prompt, settings: DecodingConfig, **more: Any) -> CaptionTiming:
    """The caption by `generate`, greedily and with the logits processors and the length limit of `settings`.

    Prompt and audio tensors are passed ready made, so that only the decoding is compared. What `settings` leave open is
    as the checkpoint suggests; `more` goes to `generate`.
    """
    module, eos_ids = model.module, model.processor.eos_ids
    scoring = effective(settings, model.processor)
    ids = torch.tensor([prompt.ids], device=model.device)
    audio = {
        name: values.to(module.device, module.dtype if values.is_floating_point() else None)
        for name, values in prompt.audio.items()
    }
    started = time.perf_counter()
    with torch.inference_mode(), warnings.catch_warnings(action="ignore"):
        output = module.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            **audio,
            do_sample=False,
            max_new_tokens=settings.max_new_tokens,
            min_new_tokens=scoring.min_new_tokens,
            repetition_penalty=scoring.repetition_penalty,
            no_repeat_ngram_size=scoring.no_repeat_ngram,
            eos_token_id=list(eos_ids),
            pad_token_id=eos_ids[0],
            **more,
        )
        text: list[int] = output[0, len(prompt.ids) :].tolist()
        wall_ms = (time.perf_counter() - started) * 1e3
    return CaptionTiming(tuple(text), wall_ms)
