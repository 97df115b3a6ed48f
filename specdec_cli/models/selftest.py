"""The self-test of a loaded model: cached, cropped and joint passes must score as one pass without a cache.

A model that fails is refused: its text would be plausible, and wrong. The result is remembered for the same files,
versions, hardware and number format.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import torch
import transformers

from specdec_cli.cache import cache_place
from specdec_cli.errors import CheckpointError, SpecdecError, first_line
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.engine import forward_together
from specdec_cli.models.processor import Prompt, test_sound
from specdec_cli.models.session import Session

_log = logging.getLogger(__name__)

TOLERANCE: Final = {torch.float32: 1e-3, torch.float16: 0.5, torch.bfloat16: 0.5}
"""Largest difference between two ways to the same scores, as a share of their row's standard deviation (at least 1).

Rounding gives up to 7e-5 in float32 and 0.16 in bfloat16; a rollback that is off by one token differs by more than 1.
"""
_LENGTH: Final = 6  # tokens of the test text that are scored
_LONGEST: Final = 8192  # sliding window that is filled
_OPENING: Final = 9  # ids at the end of a prompt, where a template may write the beginning of the answer
_VERSION: Final = 8  # of the test
_PASSED: Final = "passed"
_ALONE: Final = "clips of a batch step one by one"
_WITHOUT_GRAPHS: Final = "without graphs"


def self_test(model: AudioLM) -> None:
    """Tests a model that was just loaded, or looks up that it has passed; sets `model.self_test` and `model.joins`.

    Sets `model.slots` to None if the model fails with graphs only. The result is remembered if the weights have a
    fingerprint. Raises CheckpointError if the model fails.
    """
    remembered, phrase = _remembered(model), ""
    if remembered is not None:
        with suppress(OSError, ValueError):
            phrase = remembered.read_text(encoding="ascii")
    if not phrase.startswith(_PASSED):
        try:
            phrase = "; ".join(_test(model))
        except SpecdecError:
            raise
        except Exception as error:  # a module may raise anything
            raise _failed(model, f"{type(error).__name__}: {first_line(error)[:200]}") from error
        if remembered is not None:
            with suppress(OSError):
                remembered.parent.mkdir(parents=True, exist_ok=True)
                remembered.write_text(phrase, encoding="ascii")
    model.self_test, found = phrase, phrase.split("; ")
    model.joins = model.joins and _ALONE not in found
    if _WITHOUT_GRAPHS in found:
        model.slots = None


def _failed(model: AudioLM, why: str) -> CheckpointError:
    return CheckpointError(
        f"{model.name} ({type(model.module).__name__}) fails the self-test: {why}",
        hint="Its captions would be wrong without a sign. Use another model, or another dtype or attention.",
    )


def _test(model: AudioLM) -> list[str]:
    """Runs the comparisons; returns their results as phrases."""
    slots, model.slots = model.slots, None
    prompt, text_ids = _prompt(model, 1.0), _text_ids(model)
    allowed = TOLERANCE.get(model.dtype, TOLERANCE[torch.bfloat16])
    whole = Session(model, prompt, 2 * len(text_ids)).logits(text_ids, _LENGTH + 1)
    if not whole.amax(dim=-1).isfinite().all():  # the comparisons leave such scores out
        raise _failed(model, "its scores are not finite")
    session = _compare_steps(model, prompt, text_ids, whole, allowed)
    opening = [*prompt.ids[-_OPENING:], int(session.logits(()).argmax())]
    if "<think>" in model.processor.tokenizer.decode(opening):
        raise CheckpointError(
            f"{model.name} begins its answer with <think>: the model reasons before it answers",
            hint="Use an Instruct or Captioner variant: reasoning would be taken for the caption.",
        )
    found = [_PASSED]
    if model.joins:
        try:
            _compare_joint(session, text_ids, whole, allowed)
        except Exception as error:  # a module may refuse the mask or the cache in any way
            _log.warning("clips cannot share a forward of %s: %s", model.name, first_line(error))
            found.append(_ALONE)
    model.slots = slots
    model.record_graphs()
    if model.slots is not None:
        try:
            _compare_steps(model, prompt, text_ids, whole, allowed)
        except Exception as error:  # as above
            _log.warning("%s runs without graphs: %s", model.name, first_line(error))
            found.append(_WITHOUT_GRAPHS)
    return found


def _compare_steps(
    model: AudioLM, prompt: Prompt, text_ids: Sequence[int], whole: torch.Tensor, allowed: float
) -> Session:
    """Raises CheckpointError if steps, with rejected drafts in between, score otherwise than one pass."""
    session = Session(model, prompt, 2 * len(text_ids))
    base, end = list(text_ids[:-_LENGTH]), list(text_ids[-_LENGTH:])
    wrong = [end[-1], *end]
    session.logits(())
    if (passes := session.work.encoder_passes) != 1:
        raise _failed(model, f"it runs its audio encoder {passes} times for one prompt instead of once")
    session.logits([*base, *wrong], 3)  # a draft that is rejected at once
    stepped = [session.logits([*base, *end[:at]], 1) for at in range(3)]
    session.logits([*base, *end[:3], *wrong[:2]], 2)
    _compare(model, [*stepped, session.logits(text_ids, _LENGTH - 2)], whole, allowed)
    return session


def _compare_joint(session: Session, text_ids: Sequence[int], whole: torch.Tensor, allowed: float) -> None:
    """Raises CheckpointError if two clips score otherwise in joint forwards. The first one's scores are `whole`."""
    other = Session(session.model, _prompt(session.model, 0.5), 2 * _LENGTH)
    alone = other.logits(text_ids[:4], 2)
    found = forward_together([(session, text_ids[:2], 2), (other, text_ids[:3], 1)])
    found += forward_together([(other, text_ids[:4], 1), (session, text_ids, 2)])
    _compare(session.model, found, torch.cat([whole[1:3], alone, whole[-2:]]), allowed)


def _compare(model: AudioLM, parts: Sequence[Any], theirs: torch.Tensor, allowed: float) -> None:
    """Raises CheckpointError if two ways to the same scores differ, relative to the rows' standard deviations."""
    ours, finite = torch.cat(list(parts)), theirs.isfinite()
    filled = theirs.masked_fill(~finite, 0.0)
    scale = filled.std(dim=-1, keepdim=True).clamp(min=1.0)
    difference = float(((ours.masked_fill(~finite, 0.0) - filled).abs() / scale).max())
    if not (difference <= allowed and torch.equal(finite, ours.isfinite())):
        by = f"{difference:.2g} standard deviations, and {allowed:g} is what rounding explains"
        raise _failed(model, f"its cached scores differ from those of one pass by {by}")


def _prompt(model: AudioLM, seconds: float) -> Prompt:
    return model.processor.prompt(test_sound(seconds, model.processor.sampling_rate), "How?")


def _text_ids(model: AudioLM) -> list[int]:
    """Ids spread over the vocabulary. There are enough to fill a sliding window before the last few."""
    processor = model.processor
    barred = {*processor.banned_ids, *processor.eos_ids}
    usable = [id_ for id_ in range(1, processor.vocab_size) if id_ not in barred]
    window = max(getattr(layer, "sliding_window", 0) for layer in model.new_cache(1).layers)
    length = _LENGTH + (window if window <= _LONGEST else 0)
    return [usable[(at * 7919 + 17) % len(usable)] for at in range(length)]


def _remembered(model: AudioLM) -> Path | None:
    """The file that remembers the result for the same model, in the user's cache; None: nothing identifies it."""
    if model.weights is None:
        return None
    compiled = model.slots is not None and model.slots.compiled
    way = _VERSION, torch.__version__, transformers.__version__, model.module.config._attn_implementation, compiled
    shown, config = model.describe() | {"name": type(model.module).__name__}, model.module.config.to_dict()
    front = model.processor.prompt_settings(), model.processor.eos_ids
    return cache_place("self-test", way, hardware(model.device), shown, config, front)


def hardware(device: torch.device) -> tuple[str, ...]:
    """What determines the kernels of a device: a GPU's name, or a CPU's name and the instructions that it has.

    A home folder may be shared by unlike machines.
    """
    if device.type == "cuda":
        return torch.cuda.get_device_name(device), str(torch.cuda.get_device_capability(device))
    described, named = Path("/proc/cpuinfo"), ("model name", "flags", "Features", "CPU part")
    lines = described.read_text(errors="replace").splitlines() if described.is_file() else [platform.processor()]
    about = {line for line in lines if line.startswith(named) or not described.is_file()}
    return torch.backends.cpu.get_cpu_capability(), *sorted(about)
