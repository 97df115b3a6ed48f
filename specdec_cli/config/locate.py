"""Where things are: the shipped configs, the packaged weights, and what a model's name refers to."""

from __future__ import annotations

import ipaddress
import json
import os
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError

from specdec_cli.config.problems import nearest
from specdec_cli.errors import ConfigError
from specdec_cli.regular_files import open_regular

File = TypeVar("File", bound=BaseModel)

PACKAGED_MODELS: Final = ("package:mini/edge", "package:mini/cloud")
PACKAGED_GATES: Final = ("package:mini/gate.json",)
DEFAULT_CONFIG: Final = "mini"

_PACKAGE: Final = Path(__file__).resolve().parent.parent


def configs_folder() -> Path:
    """Folder of the shipped configs: inside an installed package, at the root of a source checkout."""
    packaged = _PACKAGE / "configs"
    return packaged if packaged.is_dir() else _PACKAGE.parent / "configs"


def shipped_configs() -> dict[str, Path]:
    """Bare name -> file of each shipped config, sorted by name."""
    return {path.stem: path for path in sorted(configs_folder().glob("*.yaml"))}


def find_config(source: str | Path | None, *, asked_by: str | None = None) -> tuple[Path, str]:
    """The file that `source` names (a shipped config or a path; None: the default), and its name in messages.

    `asked_by` is the environment variable that named it, if one did.

    Raises:
        ConfigError: there is no such file, or it is a folder.
    """
    shipped = shipped_configs()
    name = DEFAULT_CONFIG if source is None else os.fspath(source)
    if name in shipped:
        return shipped[name], shipped[name].name
    hint = f"Shipped configs, by bare name: {', '.join(shipped)}. Anything else is taken as a path."
    named_by = f" (named by {asked_by})" if asked_by else ""
    if not name.strip():
        raise ConfigError(f"The name of the config file is empty{named_by}.", hint=hint)
    path = Path(os.path.abspath(os.path.expanduser(name)))
    if os.path.isdir(path):
        raise ConfigError(f"{name} is a folder, not a config file{named_by}.", hint=hint)
    if not os.path.exists(path):
        close = nearest(path.name.removesuffix(".yaml"), shipped)
        meant = f"Did you mean {close}? " if close else ""
        raise ConfigError(f"There is no config file {name}{named_by}.", hint=meant + hint)
    return path, name


def absolute_path(name: str, base: Path) -> str:
    """`name` made absolute against `base`; what is in the package stays as it is."""
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
    """What to load a model or a gate from: the folder or file behind a packaged name, else `name` itself."""
    if name in (*PACKAGED_MODELS, *PACKAGED_GATES):
        family, which = name.removeprefix("package:").split("/")
        return str(_PACKAGE / family / "weights" / which)
    return name


def follows_shipped_prompts(source: str) -> bool:
    """Whether the checkpoint in a folder declares that it was trained on the mini pair's instructions alone."""
    try:
        declared = json.loads((Path(source) / "config.json").read_bytes())
    except (OSError, ValueError):
        return False  # on the hub; a damaged file is refused when it is loaded
    return isinstance(declared, dict) and declared.get("specdec_prompts") == "shipped"


def is_loopback(address: str) -> bool:
    """Whether a host, or the host in an address like http://host:port, is this machine itself."""
    host = (urlsplit(address).hostname or "") if "://" in address else address.strip("[]").lower()
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def gate_path(name: str) -> Path:
    """The file that a gate's name refers to: one in the package, or a path."""
    return Path(model_source(name))


def read_json(path: Path, model: type[File], what: str, most: int, hint: str, *, label: str | None = None) -> File:
    """The content of a JSON file of at most `most` bytes; `what` it is, and `label`, its name, are for messages.

    Raises:
        ConfigError: it cannot be read, is larger, or is malformed.
    """
    label = label or str(path)
    try:
        return model.model_validate_json(read_bytes(path, f"The {what} {label}", most, hint))
    except ValidationError as error:
        detail = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, detail["loc"])) or "the whole"
        raise ConfigError(f"{label} is not a {what}: {place}: {detail['msg']}.", hint=hint) from error


def read_bytes(path: Path, label: str, most: int, hint: str) -> bytes:
    """The bytes of a file, at most `most` of them.

    Raises:
        ConfigError: it cannot be read, or is larger.
    """
    try:
        with open_regular(path) as file:
            data = file.read(most + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{label} cannot be read: {reason}.", hint=hint) from error
    if len(data) > most:
        raise ConfigError(f"{label} is larger than {most // 1_000_000} MB.", hint=hint)
    return data
