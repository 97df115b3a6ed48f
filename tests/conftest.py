"""One thread per process: the models are tiny, and the tests run side by side. No test writes into a user's folders.

Tests marked `slow` run with --runslow alone. SPECDEC_CI_REQUIRE names what must be there, by the keys of `NEEDS`: a
test that is skipped for want of it fails.
"""

import gc
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "1024")  # tests have more models and lengths than a command

ROOT = Path(__file__).parents[1]
NEEDS = {
    "browser": ["chromium"],
    "dev": ["compressed_tensors", "parselmouth", "playwright", "pympi", "ray:", "schemathesis", "srt", "tgt", "webvtt"],
    "openssl": ["openssl"],
    "vllm": ["vllm"],
    "voxtral": ["mistral-common"],
}
"""What may be required -> words in the reasons of tests that are skipped without it; dev: the extra of that name."""

gc.disable()  # until all modules are imported: what they hold stays, and collecting among it takes long


def pytest_collection_finish() -> None:
    """From here on the collector works as ever, without what was imported."""
    gc.freeze()
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--runslow", action="store_true", help="run the tests marked slow, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves slow tests out, and names the files that were asked for and hold nothing else."""
    if config.getoption("--runslow"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    items[:] = [item for item in items if not item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=slow)
    if (only := {item.path for item in slow} - {item.path for item in items}) and config.args_source.name == "ARGS":
        config.stash[ONLY_SLOW] = sorted(str(path.relative_to(ROOT)) for path in only)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Of a long text in a row, its beginning: names are read, and thousands of brackets are none."""
    text = ascii(val) if isinstance(val, str | bytes) else ""
    return text[:60] if len(text) > 60 else None


ONLY_SLOW = pytest.StashKey[list[str]]()


def pytest_report_collectionfinish(config: pytest.Config) -> str | None:
    """Says which files have slow tests alone."""
    names = config.stash.get(ONLY_SLOW, None)
    return f"slow tests alone, which --runslow runs: {', '.join(names)}" if names else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turns a skipped test that SPECDEC_CI_REQUIRE asks for into a failure."""
    return required((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for files that are skipped as a whole."""
    return required((yield))


def required(report: Report) -> Report:
    """A report, which fails if it is of something skipped that SPECDEC_CI_REQUIRE asks for."""
    reason = str(report.longrepr[2]).lower() if isinstance(report.longrepr, tuple) else ""  # of a place and a reason
    for name in filter(None, os.environ.get("SPECDEC_CI_REQUIRE", "").split(",")):
        if report.skipped and any(word in reason for word in NEEDS[name]):
            report.outcome = "failed"
            report.longrepr = f"{report.nodeid} was skipped, but SPECDEC_CI_REQUIRE names {name}: {reason}"
    return report


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


@pytest.fixture(autouse=True)
def uninterrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test begins with a signal that another one obeyed: a command would leave the process at its end."""
    monkeypatch.setattr("specdec_cli.interrupts._asked", None)
    monkeypatch.setattr("specdec_cli.interrupts._obeyed", False)
