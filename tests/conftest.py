"""One thread per process: the models are tiny, and the tests run side by side. No test writes into a user's folders."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "1024")  # tests have more models and lengths than a command

ROOT = Path(__file__).parents[1]

gc.disable()  # until all modules are imported: what they hold stays, and collecting among it takes long


def pytest_collection_finish() -> None:
    """From here on the collector works as ever, without what was imported."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def cache_home(tmp_path_factory) -> Iterator[None]:
    """Folders of the tests' own: of results of self-tests, of what specdec wrote, and of PyTorch's compiler.

    The compiler would take what it made for the kernels of another CPU, whose vectors have another length.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("compiled")))
        yield


@pytest.fixture(scope="session")
def data() -> Path:
    """Folder with labels.tsv and the clips: SPECDEC_DATA, or `shared/data` beside the repository."""
    folder = Path(os.environ.get("SPECDEC_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / "labels.tsv").is_file():
        pytest.skip(f"no labels.tsv in {folder}; set SPECDEC_DATA")
    return folder


@pytest.fixture(scope="session")
def samples() -> Path:
    """Folder of the sample clips."""
    return ROOT / "samples"
