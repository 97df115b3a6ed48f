"""The checks behind `specdec doctor`: interpreter, packages, devices, audio decoders, configuration, models."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from specdec_cli.config import ResolvedConfig
from specdec_cli.config.gate_file import read_gate_file
from specdec_cli.errors import SpecdecError, first_line, typed
from specdec_cli.imports import import_libraries
from specdec_cli.report.figures import count

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner
    from specdec_cli.decoding.build import Pair
    from specdec_cli.models.families import Family

_TESTED = {"torch": "2.13", "transformers": "5.23"}
_PACKAGES = (
    "torch transformers tokenizers safetensors accelerate numpy scipy soundfile soxr av httpx psutil pydantic "
    "pyyaml rich typer"
)
_LOW_MEMORY_GIB = 2.0
_ENCODED_S = 3.0  # of test sound


@dataclass(frozen=True, slots=True)
class Check:
    """One finding."""

    name: str
    status: Literal["ok", "warn", "fail"]
    detail: str


def examine(resolved: ResolvedConfig, *, load_models: bool) -> Iterator[Check]:
    """Looks at everything that a caption needs, in the order in which it would be missed.

    Args:
        resolved: the configuration whose models are checked.
        load_models: also load the models and caption a second of test sound.
    """
    yield Check("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield from map(_package, _PACKAGES.split())
    yield from _families(resolved)
    yield from _machine()
    yield from _audio()
    yield Check("configuration", "ok", str(resolved.path))
    yield _gate(resolved)
    offline = os.environ.get("HF_HUB_OFFLINE") == "1" or resolved.config.runtime.offline
    yield Check("hub", "ok", "not used (offline)" if offline else "models that are not local may be downloaded")
    if load_models:
        yield from _models(resolved)


def _gate(resolved: ResolvedConfig) -> Check:
    """The gate in force, and whether a learned one's weights are there; that they fit the tokenizer, loading tells."""
    gate = resolved.config.gate
    if resolved.config.decoding.mode != "hybrid":
        return Check("gate", "ok", f"none in mode {resolved.config.decoding.mode}")
    threshold, of_file = gate.effective_threshold, None
    if gate.name == "learned" and gate.weights_path is not None:
        try:
            file = read_gate_file(gate.weights_path, gate.file)
        except SpecdecError as error:
            return Check("gate", "fail", _sentence(error))
        threshold, of_file = file.threshold if threshold is None else threshold, file.wake
    facts: list[str] = [gate.name] if threshold is None else [gate.name, f"threshold {threshold:g}"]
    if resolved.config.decoding.defers:
        wake = gate.effective_wake(threshold, of_file)
        facts += [*([] if wake in (None, threshold) else [f"wake {wake:g}"]), "whole captions drafted"]
    else:
        facts.append(f"k {resolved.config.decoding.k}")
    return Check("gate", "ok", ", ".join(facts))


def _package(name: str) -> Check:
    try:
        found, tested = version(name), _TESTED.get(name, "")
    except PackageNotFoundError:
        return Check(name, "fail", "not installed: pip install specdec-cli")
    if found.startswith(tested):
        return Check(name, "ok", found)
    return Check(name, "warn", f"{found}; tested with {tested}, see constraints.txt")


def _families(resolved: ResolvedConfig) -> Iterator[Check]:
    """The families that are supported, and packages that are missing or broken for the configured ones."""
    try:
        import_libraries()
        from specdec_cli.models.families import FAMILIES
    except Exception as error:  # a package that is absent or broken raises what it likes
        yield Check("families", "fail", f"transformers cannot be loaded: {first_line(error)}")
        return
    yield Check("families", "ok", ", ".join(family.name for family in FAMILIES))
    configured = {family.name: family for family in _configured_families(resolved)}
    needed = {package: name for name, family in configured.items() for package in family.needs}
    for package, name in needed.items():
        if find_spec(package.replace("-", "_")) is None:
            yield Check(package, "fail", f"not installed, and {name} needs it: pip install {package}")
    if find_spec("torchvision") is not None:
        yield _torchvision()


def _configured_families(resolved: ResolvedConfig) -> Iterator[Family]:
    """The families of the configured models, as far as the configuration or a local config.json names them."""
    from specdec_cli.models.families import family_named, family_of

    config = resolved.config
    for model in (config.edge, config.cloud):
        if model is None or (model is config.cloud and config.cloud.url is not None):
            continue
        if model.family != "auto":
            yield family_named(model.family)
            continue
        with suppress(OSError, ValueError, AttributeError):
            declared = json.loads((Path(model.source) / "config.json").read_text(encoding="utf-8"))
            yield family_of(str(declared.get("model_type")))


def _torchvision() -> Check:
    """Whether an installed torchvision fits PyTorch: transformers imports it with every processor of images."""
    try:
        import torchvision
    except Exception as error:
        hint = "install the one that belongs to this PyTorch, or uninstall it: pip uninstall torchvision"
        return Check("torchvision", "fail", f"cannot be loaded ({first_line(error)}); {hint}")
    return Check("torchvision", "ok", str(torchvision.__version__))


def _machine() -> Iterator[Check]:
    try:
        import psutil

        memory = psutil.virtual_memory()
        status: Literal["ok", "warn"] = "ok" if memory.available >= _LOW_MEMORY_GIB * 2**30 else "warn"
        yield Check("memory", status, f"{memory.available / 2**30:.1f} GiB free of {memory.total / 2**30:.1f} GiB")
    except (ImportError, OSError) as error:
        yield Check("memory", "fail", f"psutil cannot be loaded: {error}")
    try:
        import torch
    except (ImportError, OSError) as error:
        yield Check("cpu", "fail", f"PyTorch cannot be loaded: {error}")
        return
    yield Check("cpu", "ok", f"{os.cpu_count()} logical cores, {count(torch.get_num_threads(), 'thread')} for PyTorch")
    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        names.append("Apple GPU (mps)")
    yield Check("gpu", "ok", ", ".join(names) or "none: models run on the CPU")


def _audio() -> Iterator[Check]:
    try:
        import soundfile

        formats = len(soundfile.available_formats())
        yield Check("libsndfile", "ok", f"{soundfile.__libsndfile_version__}: {formats} formats")
    except (ImportError, OSError) as error:
        yield Check("libsndfile", "fail", f"cannot be loaded: {error}")
    try:
        import av

        yield Check("ffmpeg", "ok", f"libavcodec {'.'.join(map(str, av.library_versions['libavcodec']))} in PyAV")
    except (ImportError, OSError) as error:
        yield Check("ffmpeg", "warn", f"m4a, mp4, webm cannot be read: {error}")
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    warning = f"stdout is {sys.stdout.encoding}; Chinese needs UTF-8 (PYTHONUTF8=1)"
    yield Check("terminal", "ok", "UTF-8") if encoding == "utf8" else Check("terminal", "warn", warning)


def _models(resolved: ResolvedConfig) -> Iterator[Check]:
    started = time.perf_counter()
    try:
        from specdec_cli.captioner import Captioner

        captioner = Captioner.load(resolved.config)
    except Exception as error:  # a package that is absent or broken raises what it likes
        yield Check("models", "fail", _sentence(error))
        return
    loaded_s = time.perf_counter() - started
    for role, info in (("edge", captioner.setup.models.edge), ("cloud", captioner.setup.models.cloud)):
        if info is not None:
            yield Check(role, "ok", f"{info.name} · {info.placed}{_self_test(captioner.pair, role)}")
    yield Check("loading", "ok", f"{loaded_s:.1f} s")
    if (remote := captioner.pair.remote) is not None:
        try:
            yield Check("link", "ok", remote.probe())
        except SpecdecError as error:
            yield Check("link", "fail", _sentence(error))
    yield _one_caption(captioner)
    yield from _encoders(captioner)


def _self_test(pair: Pair, role: str) -> str:
    """What the self-test of a loaded model found; nothing of one that runs elsewhere."""
    model = pair.edge if role == "edge" else pair.loaded_cloud
    if model is None:
        return ""
    return " · self-test switched off" if model.self_test is None else f" · self-test {model.self_test}"


def _one_caption(captioner: Captioner) -> Check:
    """Captions a second of test sound: that there is a text counts, not what it says."""
    started = time.perf_counter()
    try:
        from specdec_cli.models.processor import test_sound

        rate = captioner.sampling_rate
        transcript = captioner.run_samples(test_sound(1.0, rate), rate, name="test sound").finish()
    except Exception as error:
        return Check("caption", "fail", _sentence(error))
    assert transcript.totals is not None
    elapsed = time.perf_counter() - started
    return Check("caption", "ok", f"{transcript.totals.tokens} tokens for 1 s of test sound in {elapsed:.2f} s")


def _encoders(captioner: Captioner) -> Iterator[Check]:
    """What `encoder_dtype` gains on this machine, where a model has an encoder that can be told; takes a second."""
    from specdec_cli.bench.advice import suggestions, try_encoders
    from specdec_cli.models.processor import test_sound

    prompts = captioner.prompts(test_sound(_ENCODED_S, captioner.sampling_rate), captioner.setup.prompt)
    loaded = zip(("edge", "cloud"), (captioner.pair.edge, captioner.pair.loaded_cloud), prompts, strict=True)
    trials = list(try_encoders({role: (model, prompt) for role, model, prompt in loaded if model and prompt}))
    found = list(suggestions(None, trials, "auto"))
    for faster in found:
        detail = f"{faster.option} makes it {faster.speedup:.1f} times as fast here; captions may change"
        yield Check("encoder", "ok", detail)
    if trials and not found:
        yield Check("encoder", "ok", "no other encoder_dtype makes it faster here")


def _sentence(error: Exception) -> str:
    """What is wrong and what to do about it, in one line."""
    known = typed(error)
    return f"{known.message.rstrip('.')}. {known.advice or ''}".strip()
