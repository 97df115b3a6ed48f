"""The checks behind `specdec doctor`: interpreter, packages, devices, audio decoders, configuration, models."""

from __future__ import annotations

import json
import math
import os
import platform
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from specdec_cli.config import ResolvedConfig
from specdec_cli.config.gate_file import thresholds
from specdec_cli.errors import SpecdecError, first_line, typed
from specdec_cli.format import count

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner
    from specdec_cli.config import LinkedConfig
    from specdec_cli.decoding.assemble import Pair
    from specdec_cli.models.audio_lm import AudioLM
    from specdec_cli.models.families import Family
    from specdec_cli.models.processor import Prompt

_TESTED = {"torch": "2.13", "transformers": "5.23"}
_PACKAGES = (
    "torch transformers tokenizers safetensors accelerate numpy scipy soundfile soxr av httpx psutil pydantic "
    "pyyaml rich typer"
)
_LOW_MEMORY_GIB = 2.0
_ENCODED_S = 3.0  # of test sound
_ENCODINGS = 3  # with each number format
_WORTH = 1.1  # smaller gains vary as much from run to run


@dataclass(frozen=True, slots=True)
class Check:
    """One finding."""

    name: str
    status: Literal["ok", "warn", "fail"]
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
    yield from _families(resolved)
    yield from _machine()
    yield from _audio()
    yield Check("configuration", "ok", resolved.label)
    yield _gate(resolved)
    offline = os.environ.get("HF_HUB_OFFLINE") == "1" or resolved.config.runtime.offline
    yield Check("hub", "ok", "not used (offline)" if offline else "models that are not local may be downloaded")
    pending = 0
    for found in _needs(resolved):
        pending += found.download
        yield found
        load_models = load_models and found.status != "fail"
    if load_models and pending:
        yield Check("models", "warn", f"not loaded: {pending / 1e9:.1f} GB would be downloaded first")
    elif load_models:
        yield from _models(resolved)


def _gate(resolved: ResolvedConfig) -> Check:
    """The gate in force, and whether a learned one's weights are there; that they fit the tokenizer, loading tells."""
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
        if model is None or model.url is not None:
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


def _needs(resolved: ResolvedConfig) -> Iterator[Check]:
    """Size, number format, memory and download of the models that run here; nothing is loaded."""
    try:
        from specdec_cli.models.download import size
        from specdec_cli.models.loading import forecast

        config = resolved.config
        models: dict[str, LinkedConfig | None] = {"edge": config.edge if config.decoding.mode != "cloud" else None}
        models["cloud"] = config.cloud if config.decoding.mode != "edge" else None
        here = {
            role: forecast(model, offline=config.runtime.offline)
            for role, model in models.items()
            if model is not None and model.url is None
        }
    except Exception as error:  # a package that is absent or broken raises what it likes
        yield Check("models", "fail", _sentence(error))
        return
    for role, (needs, download) in here.items():
        advice = "" if needs.fits else f". Instead: {needs.advice(needs.free, f'{role}.')}"
        yield Check(f"{role}-needs", "ok" if needs.fits else "warn", f"{needs}{advice}")
        if download is not None:
            yield Check(f"{role}-files", "ok" if download.fits else "fail", str(download), download.bytes)
    found = [needs for needs, _ in here.values()]
    if len(found) == 2 and found[0].device == found[1].device and all(needs.fits for needs in found):
        left = found[0].free - found[0].bytes
        if found[1].device_map is None and found[1].bytes > left:
            says = f"edge and cloud take {size(found[0].bytes + found[1].bytes)} together, more than is free"
            yield Check("both", "warn", f"{says}. Instead: {found[1].advice(left, 'cloud.')}")


def _self_test(pair: Pair, role: str) -> str:
    """What the self-test of a loaded model found; nothing of one that runs elsewhere."""
    model = pair.loaded_edge if role == "edge" else pair.loaded_cloud
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
    """What `encoder_dtype` gains on this machine, where a model runs in float32 on a CPU; takes a second."""
    from specdec_cli.models.kernels import encoder_dtypes
    from specdec_cli.models.processor import test_sound

    prompts = captioner.prompts(test_sound(_ENCODED_S, captioner.sampling_rate), captioner.setup.prompt)
    loaded = zip(("edge", "cloud"), (captioner.pair.loaded_edge, captioner.pair.loaded_cloud), prompts, strict=True)
    for role, model, prompt in loaded:
        if model is None or prompt is None or model.device.type != "cpu" or str(model.dtype) != "torch.float32":
            continue
        now = model.kernels.encoder_dtype
        times = _encoder_times(model, prompt, dict.fromkeys((now, None, *encoder_dtypes())))
        best = min(times, key=lambda name: times[name])
        if times[now] >= _WORTH * times[best]:
            gain = times[now] / times[best]
            option = f"--set {role}.encoder_dtype={best or 'null'}"
            yield Check("encoder", "ok", f"{option} makes it {gain:.1f} times as fast here; captions may change")
        else:
            yield Check("encoder", "ok", f"no other {role}.encoder_dtype makes it faster here")


def _encoder_times(model: AudioLM, prompt: Prompt, formats: Iterable[str | None]) -> dict[str | None, float]:
    """Least milliseconds of the audio encoder in each format, timed in turns; the model is left as it was."""
    from specdec_cli.models.session import Session

    now, times = model.kernels.encoder_dtype, dict[str | None, float]()
    try:
        for _ in range(_ENCODINGS):
            for name in formats:
                model.kernels.choose(name)
                session = Session(model, prompt, 1)
                session.prefill()
                times[name] = min(times.get(name, math.inf), session.work.encoder_ms)
    finally:
        model.kernels.choose(now)
    return times


def _sentence(error: Exception) -> str:
    """What is wrong and what to do about it, in one line."""
    known = typed(error)
    return f"{known.message.rstrip('.')}. {known.advice or ''}".strip()
