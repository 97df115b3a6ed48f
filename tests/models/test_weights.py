"""The fingerprint of a checkpoint: equal for equal files, another for any tensor that was trained, added or renamed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from specdec_cli.models.checkpoint import fingerprint
from tests.models.checkpoints import load
from tests.tiny import save_checkpoint, tiny_module

Tensors = dict[str, torch.Tensor]


def _tensors() -> Tensors:
    torch.manual_seed(0)
    return {
        "large": torch.randn(300, 400),
        "small": torch.randn(5),
        "half": torch.randn(700).half(),
        "empty": torch.empty(0),
        "one": torch.ones(()),
    }


def _write(path: Path, tensors: Tensors) -> Path:
    path.parent.mkdir(exist_ok=True)
    save_file(tensors, path)
    return path


def test_equal_files_have_one_fingerprint_wherever_they_lie(tmp_path: Path) -> None:
    one = fingerprint([_write(tmp_path / "a" / "model.safetensors", _tensors())])
    other = fingerprint([_write(tmp_path / "b" / "other.safetensors", _tensors())])
    assert one == other
    assert one.startswith("sha256:")
    assert len(one) == len("sha256:") + 32


@pytest.mark.parametrize("name", ["large", "small", "half", "one"])
def test_training_any_tensor_changes_it(tmp_path: Path, name: str) -> None:
    before, after = _tensors(), _tensors()
    after[name] = after[name] + 1e-2 * after[name].sign()
    files = [_write(tmp_path / "before", before), _write(tmp_path / "after", after)]
    assert fingerprint(files[:1]) != fingerprint(files[1:])


def test_a_tensor_more_or_under_another_name_changes_it(tmp_path: Path) -> None:
    renamed, more = _tensors(), _tensors()
    renamed["largest"] = renamed.pop("large")
    more["bias"] = torch.zeros(3)
    prints = {fingerprint([_write(tmp_path / str(n), t)]) for n, t in enumerate((_tensors(), renamed, more))}
    assert len(prints) == 3


def test_all_shards_count(tmp_path: Path) -> None:
    tensors = _tensors()
    first = _write(tmp_path / "1", {"large": tensors["large"]})
    second = _write(tmp_path / "2", {"small": tensors["small"]})
    changed = _write(tmp_path / "3", {"small": tensors["small"] + 1})
    assert len({fingerprint(shards) for shards in ([first], [first, second], [first, changed])}) == 3


def test_it_is_of_the_files_and_not_of_how_they_are_loaded(thinker_dir: Path, tmp_path: Path) -> None:
    whole, half = load(thinker_dir), load(thinker_dir, dtype="bfloat16")
    assert whole.weights == half.weights is not None
    assert load(save_checkpoint(tiny_module(12), tmp_path / "other")).weights != whole.weights
