"""The places of the shipped configs and the packaged models, and of the model that a name means."""

from __future__ import annotations

import ipaddress
import json
import os
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from specdec_cli.errors import ConfigError
from specdec_cli.text import nearest, show

DEFAULT_CONFIG: Final = "mini"
_PACKAGE: Final = Path(__file__).resolve().parent.parent
PACKAGED: Final = {f"package:mini/{name}": _PACKAGE / "mini/weights" / name for name in ("edge", "cloud")}
"""Packaged model -> its folder."""


def configs_folder() -> Path:
    """Folder of the shipped configs: inside an installed package, at the root of a source checkout."""
    packaged = _PACKAGE / "configs"
    return packaged if packaged.is_dir() else _PACKAGE.parent / "configs"


def shipped_configs() -> dict[str, Path]:
    """Bare name -> file of each shipped config, sorted by name."""
    return {path.stem: path for path in sorted(configs_folder().glob("*.yaml"))}


def find_config(source: str | Path | None) -> tuple[Path, str]:
    """The file that `source` names (a shipped config or a path; None: the default), and its name in messages."""
    shipped = shipped_configs()
    name = DEFAULT_CONFIG if source is None else os.fspath(source)
    if name in shipped:
        return shipped[name], shipped[name].name
    path = Path(os.path.abspath(os.path.expanduser(name)))
    if not name or not os.path.exists(path):
        meant = f"Did you mean {close}? " if (close := nearest(name, shipped)) else ""
        hint = f"{meant}--config, or else SPECDEC_CONFIG, takes a path or one of {', '.join(shipped)}."
        raise ConfigError(f"There is no config file {name or show(name)}.", hint=hint)
    return path, name


def absolute_path(name: str, base: Path) -> str:
    """`name` made absolute against `base`; the name of a packaged model stays as it is."""
    return name if name.startswith("package:") else os.path.abspath(os.path.join(base, os.path.expanduser(name)))


def absolute_model(name: str, base: Path) -> str:
    """`name` with a relative folder made absolute against `base`; hub ids and packaged models stay as they are.

    A name is a folder if one is there, or if it could not be a hub id (`owner/name`, or one plain word).
    """
    candidate = absolute_path(name, base)
    parts = name.split("/")
    hub_like = len(parts) <= 2 and all(parts) and not name.startswith((".", "~")) and "\\" not in name
    return name if hub_like and not os.path.isdir(candidate) else candidate


def model_source(name: str) -> str:
    """What to load a model from: the folder behind a packaged name, else `name` itself."""
    return str(PACKAGED.get(name, name))


@cache
def follows_shipped_prompts(model: str) -> bool:
    """Whether a packaged model, or the checkpoint in a folder, declares the mini pair's prompts as its only ones.

    Read once for each name, since every clip needs it.
    """
    try:
        declared = json.loads((Path(model_source(model)) / "config.json").read_bytes())
    except (OSError, ValueError):
        return False  # on the hub; a damaged file is refused when it is loaded
    return isinstance(declared, dict) and declared.get("specdec_prompts") == "shipped"


def is_loopback(address: str) -> bool:
    """Whether a host, or the host in an address like http://host:port, is this machine itself."""
    host = (urlsplit(address).hostname or "") if "://" in address else address.strip("[]").lower()
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
