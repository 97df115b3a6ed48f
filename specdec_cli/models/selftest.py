"""The self-test of a loaded model: do cached, rolled-back and joint passes score as one pass without a cache does?

Everything in specdec rests on that. A cache that cannot be rolled back, positions that are counted otherwise or a mask
that is read otherwise give plausible text that is wrong, so a model that fails is refused. The result is remembered
for the same weights, prompts, versions, device and number format.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import torch
import transformers

from specdec_cli.errors import CheckpointError, SpecdecError
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.family import THINK
from specdec_cli.models.processor import Prompt, test_sound
from specdec_cli.models.session import Session
from specdec_cli.models.shared import forward_together

_log = logging.getLogger(__name__)

TOLERANCE: Final = {torch.float32: 1e-3, torch.float16: 0.05, torch.bfloat16: 0.25}
"""Largest difference between two ways to the same scores, as a share of their row's standard deviation (at least 1).

Rounding gives up to 7e-5 in float32 and 0.16 in bfloat16; a rollback that is off by one token differs by more than 1.
"""
_TIE: Final = {torch.float32: 2e-4, torch.float16: 0.01, torch.bfloat16: 0.08}
_LENGTH: Final = 6  # tokens of the test text
_SOUND_S: Final = 1.0
_VERSION: Final = 1  # of the test


def tie_tolerance(dtype: torch.dtype) -> float:
    """Difference of two scores that the number format cannot tell apart, as a share of their row's standard deviation.

    Kernels of different shapes round differently; two scores that are closer may swap between two runs.
    """
    return _TIE.get(dtype, _TIE[torch.bfloat16])


def self_test(model: AudioLM, quantization: str | None = None) -> None:
    """Tests a model that was just loaded, or looks up that it has passed; sets `model.self_test` and `model.joins`.

    Raises:
        CheckpointError: the model fails; says how.
    """
    remembered = _Memory(model, quantization)
    found = remembered.read()
    if found is None:
        found = {"joins": _test(model)}
        remembered.write(found)
    model.joins = model.joins and bool(found["joins"])
    model.self_test = "passed" if model.joins else "passed; clips of a batch step one by one"


def _test(model: AudioLM) -> bool:
    """Compares; returns whether several clips may share a forward."""
    sound = test_sound(_SOUND_S, model.processor.sampling_rate)
    prompt = model.processor.prompt(sound, "How?")
    text = _text(model)
    with _named(model, "scores in one pass"):
        whole = Session(model, prompt, 2 * _LENGTH).logits(text, _LENGTH + 1)
    _require_no_reasoning(model, whole[0])
    if (passes := _encoder_passes(model, prompt)) != 1:
        raise CheckpointError(
            f"{model.name} runs its audio encoder {passes} times for one prompt instead of once",
            hint="Use a model of one of the tested families.",
        )
    with _named(model, "cached scores"):
        session = Session(model, prompt, 2 * _LENGTH)
        wrong = [text[-1], *text]
        session.prefill()
        session.logits(wrong, 3)  # a draft that is rejected at once
        stepped = [session.logits(text[:at], 1) for at in range(3)]
        session.logits([*text[:3], *wrong[:2]], 2)
        rest = session.logits(text, _LENGTH - 2)
    _compare(model, torch.cat([*stepped, rest]), whole, "its cached scores")
    return model.joins and _joins(model, prompt, text, whole)


def _require_no_reasoning(model: AudioLM, first: torch.Tensor) -> None:
    """Refuses a model whose likeliest first token opens its reasoning; `first` are its scores [vocab]."""
    if int(first.argmax()) == model.processor.tokenizer.get_vocab().get(THINK):
        raise CheckpointError(
            f"{model.name} reasons before it answers: its text begins with {THINK}",
            hint="Use an Instruct or Captioner variant: reasoning would be taken for the caption.",
        )


def _joins(model: AudioLM, prompt: Prompt, text: Sequence[int], whole: torch.Tensor) -> bool:
    """Whether two clips that share a forward get the scores that each gets alone."""
    other = model.processor.prompt(test_sound(_SOUND_S / 2, model.processor.sampling_rate), "How?")
    sessions = [Session(model, each, 2 * _LENGTH) for each in (prompt, other)]
    try:
        for session in sessions:
            session.prefill()
        found = forward_together([(sessions[0], text[:2], 2), (sessions[1], text[:3], 1)])
        more = forward_together([(sessions[1], text[:4], 1), (sessions[0], text, 2)])
        scores = [each for each in (*found, *more) if isinstance(each, torch.Tensor)]
        alone = Session(model, other, 2 * _LENGTH).logits(text[:4], 2)
        expected = [whole[1:3], alone[:1], alone[1:], whole[-2:]]
        return all(_difference(ours, theirs) <= _allowed(model) for ours, theirs in zip(scores, expected, strict=True))
    except Exception as error:  # a module may refuse the mask or the cache in any way
        _log.info("clips cannot share a forward of %s: %s", model.name, error)
        return False


def _encoder_passes(model: AudioLM, prompt: Prompt) -> int:
    """How often a prompt runs the encoder."""
    session = Session(model, prompt, 1)
    session.prefill()
    return session.work.encoder_passes


def _compare(model: AudioLM, ours: torch.Tensor, whole: torch.Tensor, what: str) -> None:
    difference, allowed = _difference(ours, whole), _allowed(model)
    if not difference <= allowed:
        raise CheckpointError(
            f"{model.name} ({type(model.module).__name__}) fails the self-test: {what} differ from those of one pass "
            f"by {difference:.2g} standard deviations, and {allowed:g} is what {model.dtype} explains",
            hint="Its captions would be wrong without a sign. Use another model, or another dtype or attention.",
        )


def _difference(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """Largest difference, as a share of the row's standard deviation (at least 1)."""
    finite = theirs.isfinite()
    if not bool((finite == ours.isfinite()).all()):
        return float("inf")
    filled = theirs.masked_fill(~finite, 0.0)
    scale = filled.std(dim=-1, keepdim=True).clamp(min=1.0)
    return float(((ours.masked_fill(~finite, 0.0) - filled).abs() / scale).max())


def _allowed(model: AudioLM) -> float:
    return TOLERANCE.get(model.dtype, TOLERANCE[torch.bfloat16])


def _text(model: AudioLM) -> list[int]:
    """Some ids that a text may hold, spread over the vocabulary."""
    processor = model.processor
    barred = {*processor.banned_ids, *processor.eos_ids}
    usable = [id_ for id_ in range(1, processor.vocab_size) if id_ not in barred]
    return [usable[(at * 7919 + 17) % len(usable)] for at in range(_LENGTH)]


class _named:
    """Turns whatever a module raises while it is tested into a CheckpointError."""

    def __init__(self, model: AudioLM, what: str) -> None:
        self._model, self._what = model, what

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, SpecdecError) or not isinstance(error, Exception):
            return
        first = (str(error).strip().splitlines() or [""])[0]
        raise CheckpointError(
            f"{self._model.name} ({type(self._model.module).__name__}) fails the self-test: {self._what} end in "
            f"{type(error).__name__}: {first[:200]}",
            hint="Use a model of one of the tested families, or another attention.",
        ) from error


class _Memory:
    """Results of earlier self-tests, in the user's cache folder; a model without a fingerprint is always tested."""

    def __init__(self, model: AudioLM, quantization: str | None) -> None:
        facts = {
            "test": _VERSION,
            "weights": model.weights,
            "class": type(model.module).__name__,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "dtype": str(model.dtype),
            "device": model.device.type,
            "attention": model.module.config._attn_implementation,
            "compiled": model.compiled,
            "quantization": quantization,
            **model.processor.fingerprints(),
        }
        name = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self._path = root / "specdec" / "self-test" / f"{name}.json" if model.weights else None
        self._facts = facts

    def read(self) -> dict[str, object] | None:
        """What was found then; None if nothing was, or it cannot be read."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            if self._path is not None:
                found = json.loads(self._path.read_text(encoding="utf-8"))
                if found["facts"] == self._facts:
                    return {"joins": bool(found["joins"])}
        return None

    def write(self, found: dict[str, object]) -> None:
        """Remembers it, if the cache folder can be written."""
        if self._path is None:
            return
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps({"facts": self._facts, **found})
            with tempfile.NamedTemporaryFile("w", dir=self._path.parent, delete=False, encoding="utf-8") as file:
                file.write(text)
            os.replace(file.name, self._path)
