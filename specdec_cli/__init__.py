"""Captions of how a person speaks, drafted by an edge audio language model and verified by a cloud one.

    from specdec_cli import Captioner
    captioner = Captioner.load("mini", {"prompt.language": "en"})
    print(captioner.caption("clip.wav").caption)

`Captioner.stream` yields an `Update` for every `Started`, `Prefill`, `Sent`, `Round` and `Finished` event, with its
text; `Captioner.captions` yields one transcript per piece; `Captioner.run_samples(samples, rate)` makes a `Run` over
audio in memory. Nothing heavy is imported before the first name is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from specdec_cli.captioner import Captioner
    from specdec_cli.config import Config, load_config
    from specdec_cli.errors import SpecdecError
    from specdec_cli.labels import Lexicon
    from specdec_cli.run import Run
    from specdec_cli.transcript import Started, Transcript
    from specdec_cli.transcript.round import Round
    from specdec_cli.transcript.updates import EventText, Update
    from specdec_cli.types import Finished, Prefill, Sent

_HOMES = {
    "captioner": ("Captioner",),
    "config": ("Config", "load_config"),
    "errors": ("SpecdecError",),
    "labels": ("Lexicon",),
    "run": ("Run",),
    "transcript": ("Started", "Transcript"),
    "transcript.round": ("Round",),
    "transcript.updates": ("EventText", "Update"),
    "types": ("Finished", "Prefill", "Sent"),
}

__all__ = [
    "Captioner", "Config", "EventText", "Finished", "Lexicon", "Prefill", "Round", "Run", "Sent", "SpecdecError",
    "Started", "Transcript", "Update", "__version__", "load_config",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"specdec_cli.{module}"), name)
    if name == "__version__":  # looking it up imports a module that no other name needs
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("specdec-cli")
        except PackageNotFoundError:  # a source tree that was never installed
            return "0+unknown"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
