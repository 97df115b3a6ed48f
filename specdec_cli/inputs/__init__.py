"""What commands read: recordings by path, folder, pattern, list or manifest, and tables of references."""

from specdec_cli.inputs.find import Paths, all_unreadable, find_recordings, identify, unreadable, with_list
from specdec_cli.inputs.manifest import Manifest
from specdec_cli.inputs.recording import InputFile, Key, stored_path

Inputs = Paths | Manifest
"""Recordings, each once; found while it is iterated. `base`: absolute folder that names in exports are relative to."""

__all__ = [
    "InputFile",
    "Inputs",
    "Key",
    "Manifest",
    "Paths",
    "all_unreadable",
    "find_recordings",
    "identify",
    "stored_path",
    "unreadable",
    "with_list",
]
