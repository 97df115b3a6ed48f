"""Imports that are put off: nothing that a caption does not use is executed, and everything works when it is used."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, new_class

import pytest

from specdec_cli import amendments, imports
from tests.cli.harness import environment

ABSENT = (
    *("numba", "sklearn", "librosa", "scipy.linalg", "scipy._lib", "sympy.core", "matplotlib", "pandas"),
    *("torch._dynamo.eval_frame", "torch._inductor.config", "torch.export.exported_program"),
    *("torch.distributed.checkpoint.state_dict_saver", "torch.distributed.fsdp.api", "torch.ao.quantization"),
)
"""Of packages that are put off, a module that is imported when they are executed."""
CAPTION = """
import json, sys
from specdec_cli import Captioner
captioner = Captioner.load("mini", {"decoding.mode": "cloud", "decoding.repetition_penalty": 1.0})
run = next(captioner.runs(sys.argv[1]))
run.finish()
print(json.dumps([name for name in json.loads(sys.argv[2]) if name in sys.modules]))
"""
LATER = """
import torch, transformers
from transformers.loss import loss_for_object_detection
from transformers.generation.continuous_batching.cache import PagedAttentionCache

def caption():
    prompt = captioner.pair.cloud.processor.prompt(samples, captioner.setup.prompt)
    return {"input_ids": torch.tensor([prompt.ids]), **prompt.audio}

from specdec_cli.audio import open_recording
samples = next(open_recording(sys.argv[1], captioner.sampling_rate, window_s=30.0).pieces()).samples
model = captioner.pair.cloud.module
told = [id_ for line in run.finish().rounds for id_ in line.committed_ids]
placeholders = list(captioner.pair.cloud.processor.banned_ids)
greedy = {"do_sample": False, "max_new_tokens": 128, "suppress_tokens": placeholders}
inputs = caption()
written = model.generate(**inputs, **greedy)[0, inputs["input_ids"].shape[1]:].tolist()
assert written == told, (written, told)
again = model.generate(**inputs, **greedy, assistant_model=model)[0, inputs["input_ids"].shape[1]:].tolist()
assert again == told, (again, told)

import scipy.optimize
assert loss_for_object_detection.linear_sum_assignment([[1, 2], [0, 9]])[1].tolist() == [1, 0]
assert loss_for_object_detection.linear_sum_assignment is scipy.optimize.linear_sum_assignment
assert torch.compile(lambda x: x * 2 + 1, backend="eager", fullgraph=True)(torch.ones(2)).tolist() == [3.0, 3.0]
marked = [of for of in vars(PagedAttentionCache).values() if getattr(of, "_torchdynamo_disable", False)]
assert marked, "what is never to be compiled is still marked so"
from torch.distributed.fsdp import CPUOffloadPolicy
from transformers.distributed import fsdp
assert fsdp.CPUOffloadPolicy is CPUOffloadPolicy and fsdp.fully_shard.__name__ == "fully_shard"
assert float(torch.distributions.Normal(0.0, 1.0).mean) == 0.0
assert torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),)).module() is not None
import sympy, torch.ao.quantization, torch.distributed.checkpoint
assert sympy.Symbol("x") + 1 - 1 == sympy.Symbol("x")
assert torch.distributed.checkpoint.save and torch.ao.quantization.QConfig
print("well")
"""


def python(code: str, *arguments: str) -> list[str]:
    """The lines that a fresh process prints."""
    command = [sys.executable, "-W", "ignore", "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, env=environment(), text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_caption_executes_nothing_that_it_does_not_use_and_all_of_it_works_afterwards(samples: Path) -> None:
    clip = str(samples / "en_male_pauses.flac")
    loaded, well = python(CAPTION + LATER, clip, json.dumps(ABSENT))
    assert json.loads(loaded) == []
    assert well == "well"


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of packages `lazytoy` and `stoodtoy`, both put off, and of `toyuser`, which imports from them."""
    for name in ("lazytoy", "stoodtoy"):
        package = tmp_path / name
        package.mkdir()
        (package / "__init__.py").write_text(
            f"import sys\nsys.executed_toys.append('{name}')\nfrom .inner import number\n__version__ = '1'\n"
            "class Kind: pass\ndef double(x): return 2 * x\n"
        )
        (package / "inner.py").write_text(f"import sys\nsys.executed_toys.append('{name}.inner')\nnumber = 7\n")
        (package / "broken.py").write_text("raise RuntimeError('no')\n")
    (tmp_path / "toyuser.py").write_text(
        "import lazytoy, stoodtoy.inner\nfrom stoodtoy import Kind, double\nfrom stoodtoy.inner import number\n"
        "def isa(x): return isinstance(x, Kind)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(imports, "_STOOD_IN", ("stoodtoy",))
    monkeypatch.setattr(imports, "_DEFERRED", ("lazytoy", "stoodtoy", "absenttoy"))
    monkeypatch.setattr(sys, "executed_toys", [], raising=False)
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] in ("lazytoy", "stoodtoy", "toyuser")]:
        del sys.modules[name]
        imports._pending.pop(name, None)


def executed() -> list[str]:
    return list(sys.executed_toys)  # type: ignore[attr-defined]


def user() -> ModuleType:
    with imports.deferring():
        return __import__("toyuser")


@pytest.mark.usefixtures("toy")
def test_a_module_is_executed_when_something_looks_into_it_and_is_then_as_any_other() -> None:
    module = user().lazytoy
    assert executed() == []
    assert module.double(4) == 8
    assert executed() == ["lazytoy", "lazytoy.inner"]
    assert type(module) is ModuleType
    assert module is sys.modules["lazytoy"]
    assert module.__spec__.loader is module.__loader__
    assert module.inner.number == 7
    assert executed() == ["lazytoy", "lazytoy.inner"]


@pytest.mark.parametrize(
    "use",
    [
        lambda user: user.double(2) == 4,
        lambda user: not user.isa(3),
        lambda user: new_class("Sub", (user.Kind,)).__mro__[1].__name__ == "Kind",
        lambda user: user.Kind.__name__ == "Kind" and user.Kind | None == None | user.Kind,
        lambda user: issubclass(user.Kind, user.Kind),
    ],
    ids=["called", "isinstance", "subclassed", "looked into", "issubclass"],
)
@pytest.mark.usefixtures("toy")
def test_a_name_stands_in_until_it_is_used(use: Callable[[ModuleType], bool]) -> None:
    module = user()
    assert executed() == []
    assert use(module)
    sys.modules["stoodtoy"].double  # noqa: B018
    assert executed() == ["stoodtoy", "stoodtoy.inner"]
    assert module.Kind is sys.modules["stoodtoy"].Kind
    assert module.double is sys.modules["stoodtoy"].double


@pytest.mark.usefixtures("toy")
def test_a_submodule_that_is_imported_later_finds_its_package_executed() -> None:
    user()
    import lazytoy.inner  # type: ignore[import-not-found]

    assert executed() == ["lazytoy", "lazytoy.inner"]
    assert lazytoy.inner.number == 7


@pytest.mark.usefixtures("toy")
def test_what_is_missing_or_broken_says_so_when_it_is_used() -> None:
    with imports.deferring():
        with pytest.raises(ImportError, match="absenttoy"):
            __import__("absenttoy")
        with pytest.raises(ImportError, match=r"stoodtoy\.absent"):
            __import__("stoodtoy.absent")
        __import__("stoodtoy.broken")
    with pytest.raises(RuntimeError, match="no"):
        sys.modules["stoodtoy.broken"].anything  # noqa: B018
    module = user()
    with pytest.raises(AttributeError, match="nothing"):
        module.lazytoy.nothing  # noqa: B018


@pytest.mark.usefixtures("toy")
def test_threads_that_use_a_module_at_once_execute_it_once() -> None:
    module, found = user(), list[int]()
    threads = [
        threading.Thread(target=lambda: found.append(module.double(1) + module.lazytoy.double(1))) for _ in "1234"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [4] * 4
    assert sorted(executed()) == ["lazytoy", "lazytoy.inner", "stoodtoy", "stoodtoy.inner"]


@pytest.mark.usefixtures("toy")
def test_a_module_that_is_set_something_keeps_it() -> None:
    module = user().lazytoy
    module.double = abs
    assert executed() == ["lazytoy", "lazytoy.inner"]
    assert module.double(-3) == 3


def test_which_class_is_where_is_read_once_and_again_when_files_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder, scans = tmp_path / "models", list[str]()
    (folder / "one").mkdir(parents=True)
    found = {
        "one": {frozenset({"torch"}): {"modeling_one": {"One", "OneModel"}}, frozenset(): {"configuration": {"C"}}}
    }

    def scanning() -> ModuleType:
        def create_import_structure_from_path(path: str) -> object:
            scans.append(path)
            return found

        module = ModuleType("transformers.utils.import_utils")
        module.create_import_structure_from_path = create_import_structure_from_path  # type: ignore[attr-defined]
        amendments.AMENDED[module.__name__](module)
        return module

    for _ in range(2):
        module = scanning()
        assert module.create_import_structure_from_path(folder) == found
        assert module.create_import_structure_from_path(str(folder / "__init__.py")) == found
        assert len(scans) == 1
    (folder / "two").mkdir()
    assert scanning().create_import_structure_from_path(folder) == found
    assert len(scans) == 2
    (memory,) = (tmp_path / "cache" / "specdec" / "transformers").iterdir()
    for spoilt in ("", "[]", "{", '{"state": 1}'):
        memory.write_text(spoilt)
        assert scanning().create_import_structure_from_path(folder) == found
    assert len(scans) == 6
    assert scanning().create_import_structure_from_path(str(folder / "one")) == found  # of other folders, as before
    assert len(scans) == 7


def test_modules_of_other_versions_are_left_as_they_are() -> None:
    for amend in amendments.AMENDED.values():
        module = ModuleType("other")
        before = dict(vars(module))
        amend(module)
        assert vars(module) == before
