"""What commands read: recordings by path, folder, pattern, list or manifest, and tables of references."""

from specdec_cli.inputs.find import Paths, identify, read_list
from specdec_cli.inputs.manifest import Manifest
from specdec_cli.inputs.recording import InputFile, Key

__all__ = ["InputFile", "Key", "Manifest", "Paths", "identify", "read_list"]
