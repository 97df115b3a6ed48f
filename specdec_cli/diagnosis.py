"""The checks behind `specdec doctor`: interpreter, packages, devices, audio decoders, configuration, models."""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from specdec_cli.config import Config, ResolvedConfig
from specdec_cli.config.settings import with_flags
from specdec_cli.errors import SpecdecError, as_specdec_error, first_line
from specdec_cli.format import count
from specdec_cli.transcript.shared import recorded_settings

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner

_TESTED = {"torch": "2.13", "transformers": "5.23"}
_PACKAGES = (
    "torch transformers tokenizers safetensors accelerate numpy scipy soundfile soxr av httpx psutil pydantic "
    "pyyaml rich typer"
)
_SMALLER = "quantization: int4, a smaller model, or a cloud at an address (cloud.model)"

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
    config = resolved.config
    yield Check("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield from map(_package, _PACKAGES.split())
    if find_spec("torchvision") is not None:  # transformers imports it with every processor of images
        hint = "; install the one that belongs to PyTorch, or uninstall it"
        yield _checked("torchvision", lambda: str(import_module("torchvision").__version__), hint)
    yield _checked("memory", _memory)
    yield _checked("devices", _devices)
    yield _checked("decoders", _decoders)
    yield Check("configuration", "ok", resolved.label)
    yield _checked("gate", lambda: _gate(config))
    pending = 0
    for found in _needs(config):
        pending += found.download
        yield found
        load_models = load_models and found.status != "fail"
    if load_models and pending:
        yield Check("models", "warn", f"not loaded: {pending / 1e9:.1f} GB would be downloaded first")
    elif load_models:
        yield from _models(config)


def _checked(name: str, check: Callable[[], str], hint: str = "") -> Check:
    """What a check finds that imports a package: one that is absent or broken may raise anything."""
    try:
        return Check(name, "ok", check())
    except SpecdecError as error:
        return Check(name, "fail", _sentence(error))
    except Exception as error:
        return Check(name, "fail", f"cannot be loaded ({first_line(error)}){hint}")


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


def _devices() -> str:
    import torch

    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    names += ["Apple GPU (mps)"] if torch.backends.mps.is_available() else []
    cores = f"{os.cpu_count()} logical cores, {count(torch.get_num_threads(), 'thread')} for PyTorch"
    return f"{cores}, {', '.join(names) or 'no GPU'}"


def _decoders() -> str:
    import av
    import soundfile

    libavcodec = ".".join(map(str, av.library_versions["libavcodec"]))
    return f"libsndfile {soundfile.__libsndfile_version__}, libavcodec {libavcodec} in PyAV"


def _gate(config: Config) -> str:
    """The gate in force."""
    if config.decoding.mode != "hybrid":
        return f"none in mode {config.decoding.mode}"
    used = recorded_settings(config)
    facts = [f"{used['gate']}"] + ([] if used["threshold"] is None else [f"threshold {used['threshold']:g}"])
    return ", ".join([*facts, "whole captions drafted" if used["k"] == "whole" else f"k {used['k']}"])


def _needs(config: Config) -> Iterator[Check]:
    """Size, number format, memory and download of the models that run here; nothing is loaded."""
    try:
        from specdec_cli.models.loading import forecast, size

        models = {role: model for role, model in config.models.items() if model.url is None}
        here = {role: forecast(model, offline=config.runtime.offline) for role, model in models.items()}
    except Exception as error:  # a package that is absent or broken may raise anything
        yield Check("models", "fail", _sentence(error))
        return
    taken = Counter[str]()  # bytes, by device
    for role, needs in here.items():
        other = f", of which {size(taken[needs.device])} are the edge's" if taken[needs.device] else ""
        taken[needs.device] += needs.bytes
        fits = models[role].spreads or taken[needs.device] <= needs.free
        advice = "" if fits else f"{other}. Instead: {role}.{_SMALLER}"
        yield Check(f"{role}-needs", "ok" if fits else "warn", f"{needs}{advice}")
        if needs.download:
            yield _download(role, needs.download)
    if len(models) == 2:
        yield _checked("vocabulary", lambda: _vocabulary(config))


def _download(role: str, number: int) -> Check:
    """Whether the disk has room for the weights of a model."""
    from huggingface_hub import constants

    from specdec_cli.models.loading import size

    cache = Path(constants.HF_HUB_CACHE)
    free = shutil.disk_usage(next(path for path in (cache, *cache.parents) if path.exists())).free
    says = f"{size(number)} of weights to download; {size(free)} free in {cache}"
    hint = "" if number < free else ". Free some space, or set HF_HUB_CACHE to a folder on a larger disk"
    return Check(f"{role}-files", "ok" if number < free else "fail", f"{says}{hint}", number)


def _vocabulary(config: Config) -> str:
    """How many token ids edge and cloud share, by their tokenizers alone."""
    from specdec_cli.models.loading import load_processor
    from specdec_cli.models.processor import require_lossless, shared_vocab_size

    edge, cloud = (load_processor(model, offline=config.runtime.offline) for model in config.models.values())
    shared = shared_vocab_size(edge, cloud)
    if config.decoding.mode == "lossless":
        require_lossless(cloud, shared)
    return f"edge and cloud share {shared:,} token ids"


def _models(config: Config) -> Iterator[Check]:
    try:
        from specdec_cli.captioner import Captioner

        captioner = Captioner.load(config)
    except Exception as error:  # a package that is absent or broken may raise anything
        yield Check("models", "fail", _sentence(error))
        return
    with captioner:
        shown, pair = captioner.shared.models, captioner.pair
        for role, info, model in (
            ("edge", shown.edge, pair.local("edge")),
            ("cloud", shown.cloud, pair.local("cloud")),
        ):
            if info is not None:
                tested = "" if model is None else f" · self-test {model.self_test or 'switched off'}"
                yield Check(role, "ok", f"{info.name} · {info.line}{tested}")
        for remote in pair.remotes:
            yield _checked("remote", remote.probe)
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
    known = as_specdec_error(error)
    return f"{known.message.rstrip('.')}. {with_flags(known.hint or '')}".strip()
