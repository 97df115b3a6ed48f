"""Checks around reading a checkpoint: it is there, it is of the family, and no weight was made up.

transformers only warns about weights that a checkpoint lacks and fills them with random numbers; a caption from such
a model would look like a bad model instead of a bad download.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from specdec_cli.errors import CheckpointError
from specdec_cli.models.family import LoadOptions, is_local

_NAMED = 5  # weights named in an error, before "and n more"


def checkpoint_folder(options: LoadOptions) -> str:
    """What to hand to `from_pretrained`: an existing local folder, or a hub id.

    Raises:
        CheckpointError: the folder does not exist or holds no checkpoint.
    """
    if not is_local(options.model):
        return options.model
    folder = Path(options.model).expanduser()
    if not folder.is_dir():
        what = "is a file, not a folder" if folder.exists() else "does not exist"
        raise CheckpointError(f"{options.model} {what}", hint="Give the folder of a checkpoint, or a hub id.")
    if not (folder / "config.json").is_file():
        raise CheckpointError(
            f"{options.model} is no checkpoint: it has no config.json",
            hint="Give the folder that holds config.json and the *.safetensors files.",
        )
    if not any(folder.glob("*.safetensors")):
        has_pickle = any(folder.glob("*.bin")) or any(folder.glob("*.pt"))
        why = "only pickled weights, which are never loaded" if has_pickle else "no *.safetensors file"
        raise CheckpointError(
            f"{options.model} holds {why}",
            hint="Convert or download it in the safetensors format.",
        )
    return str(folder)


def require_model_type(folder: str, accepted: frozenset[str], family: str) -> None:
    """Refuses a local checkpoint whose config.json names another architecture."""
    path = Path(folder) / "config.json"
    if not path.is_file():
        return
    try:
        declared = json.loads(path.read_text(encoding="utf-8")).get("model_type")
    except (ValueError, AttributeError, OSError) as error:
        raise CheckpointError(f"{path} cannot be read as JSON: {error}", hint="Download it again.") from error
    if declared not in accepted:
        raise CheckpointError(
            f"{folder} holds a model of type {declared!r}, but the family {family!r} loads {sorted(accepted)}",
            hint="Set `family` to the one that fits, or point `model` at another checkpoint.",
        )


def require_complete(name: str, info: Mapping[str, Any], *, ignored: tuple[str, ...]) -> None:
    """Refuses a load that left weights random or dropped some.

    Args:
        name: the model, as the user called it.
        info: transformers' loading info.
        ignored: prefixes of parameters that are not used and may be missing.

    Raises:
        CheckpointError: weights are missing, unexpected, or of another shape.
    """
    missing = sorted(key for key in info["missing_keys"] if not key.startswith(ignored))
    unexpected = sorted(key for key in info["unexpected_keys"] if not key.startswith(ignored))
    mismatched = sorted(str(entry[0]) for entry in info.get("mismatched_keys") or ())
    for what, keys in (("lacks", missing), ("has unexpected", unexpected), ("has misshapen", mismatched)):
        if keys:
            named = ", ".join(keys[:_NAMED]) + (f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else "")
            raise CheckpointError(
                f"{name} {what} weights: {named}",
                hint="The config.json and the weights do not belong together, or a shard is missing: "
                "download the checkpoint again.",
            )


@contextmanager
def loading_errors(name: str, source: str, *, offline: bool) -> Iterator[None]:
    """Turns what transformers, safetensors and the hub raise while loading into a CheckpointError."""
    import transformers

    verbosity = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        yield
    except CheckpointError:
        raise
    except ImportError as error:
        raise CheckpointError(f"{name} needs a package that is not installed: {_first_line(error)}") from error
    except Exception as error:  # the libraries raise OSError, ValueError, RuntimeError, KeyError, SafetensorError...
        hint = "Check the files of the checkpoint."
        if not is_local(source):
            hint = (
                f"Download {name} first and set `model` to its folder, or allow downloads with runtime.offline: false."
                if offline
                else "Check the name, the network and your access, or download it and set `model` to its folder."
            )
        raise CheckpointError(f"{name} cannot be loaded: {_first_line(error)}", hint=hint) from error
    finally:
        transformers.logging.enable_progress_bar()
        transformers.logging.set_verbosity(verbosity)


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return text[0].strip() if text else type(error).__name__
