"""The fingerprint of a checkpoint: equal for equal files, another for any tensor that was trained, added or renamed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from specdec_cli.models.checkpoint import fingerprint
from tests.models.checkpoints import load


def tensors() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    made = {"large": torch.randn(300, 400), "small": torch.randn(5), "half": torch.randn(700).half()}
    return {**made, "empty": torch.empty(0), "one": torch.ones(())}


def saved(path: Path, content: dict[str, torch.Tensor]) -> Path:
    save_file(content, path)
    return path


@pytest.mark.parametrize("name", ["large", "small", "half", "one"])
def test_any_change_of_a_tensor_changes_it_and_a_copy_does_not(tmp_path: Path, name: str) -> None:
    first = fingerprint([saved(tmp_path / "a", tensors())])
    assert first == fingerprint([saved(tmp_path / "b", tensors())])
    rest = tensors()
    value = rest.pop(name)
    for after in ({name: value + 1e-2 * value.sign()}, {"other": value}, {}):
        assert fingerprint([saved(tmp_path / "c", rest | after)]) != first


def test_all_shards_count(tmp_path: Path) -> None:
    whole = tensors()
    first, second = (saved(tmp_path / name, {name: whole[name]}) for name in ("large", "small"))
    changed = saved(tmp_path / "changed", {"small": whole["small"] + 1})
    assert len({fingerprint(shards) for shards in ([first], [first, second], [first, changed])}) == 3


def test_it_is_of_the_files_and_not_of_how_they_are_loaded(thinker_dir: Path) -> None:
    assert load(thinker_dir).weights == load(thinker_dir, dtype="bfloat16").weights is not None
