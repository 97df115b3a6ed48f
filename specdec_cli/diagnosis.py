"""The checks behind `specdec doctor`: interpreter, packages, devices, audio decoders, configuration, models."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, TypeAlias

from specdec_cli.config import ResolvedConfig
from specdec_cli.config.gate_file import read_learned
from specdec_cli.errors import SpecdecError, first_line, typed
from specdec_cli.format import count

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner

_TESTED = {"torch": "2.13", "transformers": "5.23"}
_PACKAGES = (
    "torch transformers tokenizers safetensors accelerate numpy scipy soundfile soxr av httpx psutil pydantic "
    "pyyaml rich typer"
)
_SMALLER = "quantization: int4, a smaller model, or a cloud at an address (cloud.url)"

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
    if find_spec("torchvision") is not None:  # transformers imports it with every processor of images
        hint = "; install the one that belongs to PyTorch, or uninstall it"
        yield _checked("torchvision", lambda: str(import_module("torchvision").__version__), hint=hint)
    yield _checked("memory", _memory)
    yield _checked("cpu", _cpu)
    yield _checked("gpu", _gpus)
    yield _checked("libsndfile", _libsndfile)
    yield _checked("ffmpeg", _ffmpeg, otherwise="warn", hint="; m4a, mp4, webm cannot be read")
    yield Check("configuration", "ok", resolved.label)
    yield _checked("gate", lambda: _gate(resolved))
    pending = 0
    for found in _needs(resolved):
        pending += found.download
        yield found
        load_models = load_models and found.status != "fail"
    if load_models and pending:
        yield Check("models", "warn", f"not loaded: {pending / 1e9:.1f} GB would be downloaded first")
    elif load_models:
        yield from _models(resolved)


def _checked(name: str, check: Callable[[], str], *, otherwise: Status = "fail", hint: str = "") -> Check:
    """What a check finds that imports a package: one that is absent or broken raises what it likes."""
    try:
        return Check(name, "ok", check())
    except SpecdecError as error:
        return Check(name, otherwise, _sentence(error))
    except Exception as error:
        return Check(name, otherwise, f"cannot be loaded ({first_line(error)}){hint}")


def _package(name: str) -> Check:
    try:
        found, tested = version(name), _TESTED.get(name, "")
    except PackageNotFoundError:
        return Check(name, "fail", "not installed: pip install specdec-cli")
    fits = found.startswith(tested)
    return Check(name, "ok" if fits else "warn", found if fits else f"{found}; tested with {tested}")


def _memory() -> str:
    import psutil

    memory = psutil.virtual_memory()
    return f"{memory.available / 2**30:.1f} GiB free of {memory.total / 2**30:.1f} GiB"


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


def _gate(resolved: ResolvedConfig) -> str:
    """The gate in force; a learned one's weights are read, and loading checks that they fit the tokenizer."""
    decoding, gate = resolved.config.decoding, resolved.config.gate
    if decoding.mode != "hybrid":
        return f"none in mode {decoding.mode}"
    threshold = gate.effective_threshold
    if gate.name == "learned" and gate.weights_path is not None:
        file, _ = read_learned(gate.weights_path, gate.file)
        threshold = file.threshold if threshold is None else threshold
    facts: list[str] = [gate.name] if threshold is None else [gate.name, f"threshold {threshold:g}"]
    return ", ".join([*facts, "whole captions drafted" if decoding.defers else f"k {decoding.k}"])


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
    try:
        from specdec_cli.captioner import Captioner

        captioner = Captioner.load(resolved.config)
    except Exception as error:  # a package that is absent or broken raises what it likes
        yield Check("models", "fail", _sentence(error))
        return
    shown, pair = captioner.setup.models, captioner.pair
    for role, info, model in (("edge", shown.edge, pair.loaded_edge), ("cloud", shown.cloud, pair.loaded_cloud)):
        if info is not None:
            tested = "" if model is None else f" · self-test {model.self_test or 'switched off'}"
            yield Check(role, "ok", f"{info.line}{tested}")
    for link in filter(None, (pair.remote_edge, pair.remote)):
        yield _checked("link", link.probe)
    yield _checked("caption", lambda: _one_caption(captioner))


def _one_caption(captioner: Captioner) -> str:
    """Captions a second of test sound: whether there is a text matters, not which."""
    from specdec_cli.models.processor import test_sound

    started, rate = time.perf_counter(), captioner.sampling_rate
    transcript = captioner.run_samples(test_sound(1.0, rate), rate, name="test sound").finish()
    tokens = transcript.totals.tokens if transcript.totals else 0
    return f"{tokens} tokens for 1 s of test sound in {time.perf_counter() - started:.2f} s"


def _sentence(error: Exception) -> str:
    """What is wrong and what to do about it, in one line."""
    known = typed(error)
    return f"{known.message.rstrip('.')}. {known.advice or ''}".strip()
