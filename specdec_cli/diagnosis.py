"""The checks behind `specdec doctor`: interpreter, packages, devices, audio decoders, configuration, models."""

from __future__ import annotations

import math
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, TypeAlias

from specdec_cli.config import ResolvedConfig
from specdec_cli.config.gate_file import thresholds
from specdec_cli.errors import SpecdecError, first_line, typed
from specdec_cli.format import count

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner
    from specdec_cli.models.audio_lm import AudioLM
    from specdec_cli.models.processor import Prompt

_TESTED = {"torch": "2.13", "transformers": "5.23"}
_PACKAGES = (
    "torch transformers tokenizers safetensors accelerate numpy scipy soundfile soxr av httpx psutil pydantic "
    "pyyaml rich typer"
)
_LOW_MEMORY_GIB = 2.0
_ENCODED_S = 3.0  # of test sound
_ENCODINGS = 3  # with each number format
_SMALLER = "quantization: int4, a smaller model, or a cloud at an address (cloud.url)"
_WORTH = 1.1  # smaller gains vary as much from run to run

Status: TypeAlias = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Check:
    """One finding."""

    name: str
    status: Status
    detail: str
    download: int = 0  # bytes that would be downloaded


def examine(resolved: ResolvedConfig, *, load_models: bool) -> Iterator[Check]:
    """Looks at everything that a caption needs, in the order in which it would be missed.

    Args:
        resolved: the configuration whose models are checked.
        load_models: also load the models and caption a second of test sound.
    """
    yield Check("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield from map(_package, _PACKAGES.split())
    yield _imported("families", _families)
    if find_spec("torchvision") is not None:  # transformers imports it with every processor of images
        hint = "; install the one that belongs to PyTorch, or uninstall it"
        yield _imported("torchvision", lambda: str(import_module("torchvision").__version__), hint=hint)
    yield _imported("memory", _memory)
    yield _imported("cpu", _cpu)
    yield _imported("gpu", _gpus)
    yield _imported("libsndfile", _libsndfile)
    yield _imported("ffmpeg", _ffmpeg, otherwise="warn", hint="; m4a, mp4, webm cannot be read")
    yield _terminal()
    yield Check("configuration", "ok", resolved.label)
    yield _gate(resolved)
    yield _imported("hub", lambda: _hub(resolved))
    pending = 0
    for found in _needs(resolved):
        pending += found.download
        yield found
        load_models = load_models and found.status != "fail"
    if load_models and pending:
        yield Check("models", "warn", f"not loaded: {pending / 1e9:.1f} GB would be downloaded first")
    elif load_models:
        yield from _models(resolved)


def _imported(name: str, check: Callable[[], str | Check], *, otherwise: Status = "fail", hint: str = "") -> Check:
    """What a check finds that imports a package: one that is absent or broken raises what it likes."""
    try:
        found = check()
    except Exception as error:
        return Check(name, otherwise, f"cannot be loaded ({first_line(error)}){hint}")
    return found if isinstance(found, Check) else Check(name, "ok", found)


def _package(name: str) -> Check:
    try:
        found, tested = version(name), _TESTED.get(name, "")
    except PackageNotFoundError:
        return Check(name, "fail", "not installed: pip install specdec-cli")
    if found.startswith(tested):
        return Check(name, "ok", found)
    return Check(name, "warn", f"{found}; tested with {tested}, see constraints.txt")


def _families() -> str:
    from specdec_cli.models.families import FAMILIES

    return ", ".join(family.name for family in FAMILIES)


def _memory() -> Check:
    import psutil

    memory = psutil.virtual_memory()
    detail = f"{memory.available / 2**30:.1f} GiB free of {memory.total / 2**30:.1f} GiB"
    return Check("memory", "ok" if memory.available >= _LOW_MEMORY_GIB * 2**30 else "warn", detail)


def _cpu() -> str:
    import torch

    return f"{os.cpu_count()} logical cores, {count(torch.get_num_threads(), 'thread')} for PyTorch"


def _gpus() -> str:
    import torch

    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        names.append("Apple GPU (mps)")
    return ", ".join(names) or "none: models run on the CPU"


def _libsndfile() -> str:
    import soundfile

    return f"{soundfile.__libsndfile_version__}: {len(soundfile.available_formats())} formats"


def _ffmpeg() -> str:
    import av

    return f"libavcodec {'.'.join(map(str, av.library_versions['libavcodec']))} in PyAV"


def _terminal() -> Check:
    if (sys.stdout.encoding or "").lower().replace("-", "") == "utf8":
        return Check("terminal", "ok", "UTF-8")
    return Check("terminal", "warn", f"stdout is {sys.stdout.encoding}; Chinese needs UTF-8 (PYTHONUTF8=1)")


def _gate(resolved: ResolvedConfig) -> Check:
    """The gate in force, and whether a learned one's weights are there; loading checks that they fit the tokenizer."""
    gate = resolved.config.gate
    if resolved.config.decoding.mode != "hybrid":
        return Check("gate", "ok", f"none in mode {resolved.config.decoding.mode}")
    try:
        threshold, wake = thresholds(gate)
    except SpecdecError as error:
        return Check("gate", "fail", _sentence(error))
    facts: list[str] = [gate.name] if threshold is None else [gate.name, f"threshold {threshold:g}"]
    if resolved.config.decoding.defers:
        facts += [*([] if wake in (None, threshold) else [f"wake {wake:g}"]), "whole captions drafted"]
    else:
        facts.append(f"k {resolved.config.decoding.k}")
    return Check("gate", "ok", ", ".join(facts))


def _hub(resolved: ResolvedConfig) -> str:
    from huggingface_hub import is_offline_mode

    if resolved.config.runtime.offline:
        return "not used (runtime.offline)"
    return "not used (HF_HUB_OFFLINE)" if is_offline_mode() else "models that are not local may be downloaded"


def _needs(resolved: ResolvedConfig) -> Iterator[Check]:
    """Size, number format, memory and download of the models that run here; nothing is loaded."""
    config = resolved.config
    models = {
        "edge": config.edge if config.decoding.mode != "cloud" else None,
        "cloud": config.cloud if config.decoding.mode != "edge" else None,
    }
    try:
        from specdec_cli.models.download import size
        from specdec_cli.models.loading import forecast

        here = {
            role: forecast(model, offline=config.runtime.offline)
            for role, model in models.items()
            if model is not None and model.url is None
        }
    except Exception as error:  # a package that is absent or broken raises what it likes
        yield Check("models", "fail", _sentence(error))
        return
    for role, (needs, download) in here.items():
        advice = "" if needs.fits else f". Instead: {role}.{_SMALLER}"
        yield Check(f"{role}-needs", "ok" if needs.fits else "warn", f"{needs}{advice}")
        if download is not None:
            yield Check(f"{role}-files", "ok" if download.fits else "fail", str(download), download.bytes)
    found = [needs for needs, _ in here.values()]
    if len(found) == 2 and found[0].device == found[1].device and all(needs.fits for needs in found):
        left = found[0].free - found[0].bytes
        if found[1].config.device_map is None and found[1].bytes > left:
            says = f"edge and cloud take {size(found[0].bytes + found[1].bytes)} together, more than is free"
            yield Check("both", "warn", f"{says}. Instead: cloud.{_SMALLER}")


def _models(resolved: ResolvedConfig) -> Iterator[Check]:
    started = time.perf_counter()
    try:
        from specdec_cli.captioner import Captioner

        captioner = Captioner.load(resolved.config)
    except Exception as error:  # a package that is absent or broken raises what it likes
        yield Check("models", "fail", _sentence(error))
        return
    loaded_s = time.perf_counter() - started
    shown, pair = captioner.setup.models, captioner.pair
    for role, info, model in (("edge", shown.edge, pair.loaded_edge), ("cloud", shown.cloud, pair.loaded_cloud)):
        if info is not None:
            tested = "" if model is None else f" · self-test {model.self_test or 'switched off'}"
            yield Check(role, "ok", f"{info.name} · {info.placed}{tested}")
    yield Check("loading", "ok", f"{loaded_s:.1f} s")
    for link in filter(None, (pair.remote_edge, pair.remote)):
        try:
            yield Check("link", "ok", link.probe())
        except SpecdecError as error:
            yield Check("link", "fail", _sentence(error))
    yield _one_caption(captioner)
    yield from _encoders(captioner)


def _one_caption(captioner: Captioner) -> Check:
    """Captions a second of test sound: whether there is a text matters, not which."""
    from specdec_cli.models.processor import test_sound

    started, rate = time.perf_counter(), captioner.sampling_rate
    try:
        transcript = captioner.run_samples(test_sound(1.0, rate), rate, name="test sound").finish()
    except Exception as error:
        return Check("caption", "fail", _sentence(error))
    assert transcript.totals is not None
    elapsed = time.perf_counter() - started
    return Check("caption", "ok", f"{transcript.totals.tokens} tokens for 1 s of test sound in {elapsed:.2f} s")


def _encoders(captioner: Captioner) -> Iterator[Check]:
    """What an audio encoder in int8 gains on this machine, where a model runs in float32 on a CPU; takes a second."""
    from specdec_cli.models.kernels import has_int8
    from specdec_cli.models.processor import test_sound

    prompts = captioner.prompts(test_sound(_ENCODED_S, captioner.sampling_rate), captioner.setup.prompt)
    loaded = zip(("edge", "cloud"), (captioner.pair.loaded_edge, captioner.pair.loaded_cloud), prompts, strict=True)
    for role, model, prompt in loaded:
        in_float32 = model is not None and model.device.type == "cpu" and str(model.dtype) == "torch.float32"
        if model is None or prompt is None or not in_float32 or not has_int8():
            continue
        gain = _gain_of_int8(model, prompt)
        if gain >= _WORTH:
            says = f"{role}.encoder_dtype=int8 makes it {gain:.1f} times as fast here; captions may change"
        else:
            says = f"{role}.encoder_dtype=int8 makes it no faster here"
        yield Check("encoder", "ok", says)


def _gain_of_int8(model: AudioLM, prompt: Prompt) -> float:
    """Least time of the audio encoder in float32 over that in int8, timed in turns; the model is left as it was."""
    from specdec_cli.models.session import Session

    configured, times = model.kernels.encoder_dtype, {None: math.inf, "int8": math.inf}
    try:
        for name in (*times,) * _ENCODINGS:
            model.kernels.choose(name)
            session = Session(model, prompt, 1)
            session.prefill()
            times[name] = min(times[name], session.work.encoder_ms)
    finally:
        model.kernels.choose(configured)
    return times[None] / times["int8"]


def _sentence(error: Exception) -> str:
    """What is wrong and what to do about it, in one line."""
    known = typed(error)
    return f"{known.message.rstrip('.')}. {known.advice or ''}".strip()
