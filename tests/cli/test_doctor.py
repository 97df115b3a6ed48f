"""`specdec doctor`: what is missing is a row that says fail, never a traceback."""

import importlib.metadata
import importlib.util
import re
import sys
from types import SimpleNamespace

import pytest

from specdec_cli import diagnosis as doctor_module
from specdec_cli.models import families
from tests.cli.harness import Outcome
from tests.mini_pair import mini_pair
from tests.support.machine import NOBODY
from tests.support.servers import verifying


def rows(outcome: Outcome) -> dict[str, tuple[str, str]]:
    """Name of each check -> (outcome, detail)."""
    found = {}
    for line in outcome.lines:
        parts = line.rstrip().split(maxsplit=3)
        if len(parts) >= 3 and parts[1] in ("ok", "warn", "fail"):
            found[parts[2]] = (parts[1], parts[3] if len(parts) > 3 else "")
    return found


def failing(outcome: Outcome) -> dict[str, str]:
    """The checks that failed, once it is clear that the command says so."""
    failed = {name: detail for name, (status, detail) in rows(outcome).items() if status == "fail"}
    assert outcome.code == (3 if failed else 0)
    assert "Traceback" not in outcome.out + outcome.err
    return failed


def test_a_healthy_installation_passes(really_loading):
    outcome = really_loading("doctor")
    assert failing(outcome) == {}
    found = rows(outcome)
    for name in ("python", "torch", "memory", "devices", "decoders", "configuration", "edge", "cloud"):
        assert found[name][0] in ("ok", "warn")
    assert "tokens for 1 s" in found["caption"][1]
    for role in ("edge", "cloud"):
        assert found[role][1].endswith("· self-test passed")
    assert "scipy" in found
    assert outcome.err == "loading PyTorch and the models ...\n"


def test_quick_loads_no_model(specdec):
    outcome = specdec("doctor", "--quick", loads=False)
    assert failing(outcome) == {}
    assert not {"edge", "cloud", "caption", "models"} & set(rows(outcome))


def test_models_that_do_not_fit_are_told_with_what_would(specdec, monkeypatch):
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=1000, total=10**12))
    found = rows(specdec("doctor", "--quick"))
    assert found["edge-needs"][0] == found["cloud-needs"][0] == "warn"
    assert "million parameters in float32" in found["edge-needs"][1]
    assert "Instead: " in found["edge-needs"][1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "class-entropy, threshold 1.09, whole captions drafted"),
        (
            ("--set", "gate.name=entropy", "--set", "gate.threshold=0.4"),
            "entropy, threshold 0.4, whole captions drafted",
        ),
        (("-k", "3"), "class-entropy, threshold 1.09, k 3"),
    ],
)
def test_the_gate_is_described_as_it_works(specdec, arguments, said):
    assert re.fullmatch(said, rows(specdec("doctor", "--quick", *arguments))["gate"][1])


def test_one_model_is_checked_where_the_mode_needs_one_and_untested_if_asked(really_loading):
    found = rows(really_loading("doctor", "--set", "decoding.mode=edge", "--set", "runtime.self_test=false"))
    assert found["edge"][1].endswith("· self-test switched off")
    assert "cloud" not in found


def test_a_remote_cloud_is_probed(really_loading, monkeypatch):
    monkeypatch.setattr("specdec_cli.pairs.load_model", lambda *_, **__: mini_pair().edge)
    monkeypatch.setattr("specdec_cli.cloud.remote.PAUSE_S", 0.001)
    with verifying(mini_pair().cloud) as served:
        found = rows(really_loading("doctor", "--set", f"cloud.model={served.url}"))
    assert (found["remote"][0], "answered in" in found["remote"][1]) == ("ok", True)
    assert "self-test" not in found["cloud"][1]
    outcome = really_loading("doctor", "--set", f"cloud.model={NOBODY}")
    assert "All connection attempts failed" in failing(outcome)["remote"]


def test_a_missing_model_fails(really_loading):
    outcome = really_loading("doctor", "--set", "edge.model=./gone")
    assert list(failing(outcome)) == ["models"]
    assert "gone" in failing(outcome)["models"]
    assert outcome.lines[-1] == "1 problem."


@pytest.mark.parametrize(
    ("module", "check", "said"),
    [
        ("torch", "devices", "cannot be loaded"),
        ("psutil", "memory", "cannot be loaded"),
        ("soundfile", "decoders", "cannot be loaded"),
        ("torchvision", "torchvision", "uninstall it"),
        ("av", "decoders", "cannot be loaded"),
    ],
)
def test_a_package_that_cannot_be_imported_is_a_row(specdec, monkeypatch, module, check, said):
    known = importlib.util.find_spec
    monkeypatch.setattr(doctor_module, "find_spec", lambda name: known("json" if name == "torchvision" else name))
    monkeypatch.setitem(sys.modules, "torchvision", SimpleNamespace(__version__="0"))
    monkeypatch.setitem(sys.modules, module, None)  # an import of it raises
    outcome = specdec("doctor", "--quick")
    assert said in failing(outcome)[check]


def test_packages_that_are_absent_or_of_another_version_are_rows(specdec, monkeypatch):
    def version(name: str) -> str:
        if name == "safetensors":
            raise importlib.metadata.PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(doctor_module, "version", version)
    monkeypatch.setattr(families.FAMILIES["qwen2.5-omni"], "needs", ("no-such-package",))
    outcome = specdec("doctor", "--quick")
    failed = failing(outcome)
    assert "not installed" in failed["safetensors"]
    assert "pip install no-such-package" in failed["models"]
    assert rows(outcome)["torch"][0] == "warn"
