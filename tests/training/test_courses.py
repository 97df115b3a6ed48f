"""Every decoder course hears the tower that its table names."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from training.architecture import CLOUD
from training.courses import COURSES
from training.encoder_training import TOWER_COURSES
from training.state import save_state
from training.tower import build_tower
from training.train import features_folder, tower_of


def test_the_clouds_towers_exist_and_its_last_course_hears_the_last() -> None:
    towers = [course.tower for course in COURSES[CLOUD]]
    assert towers == sorted(towers)
    assert towers[-1] == len(TOWER_COURSES) - 1


def test_a_course_hears_its_own_tower(tmp_path: Path) -> None:
    first, last = COURSES[CLOUD][0], COURSES[CLOUD][-1]
    assert first.tower != last.tower
    for number in (first.tower, last.tower):
        torch.manual_seed(number)
        save_state(tmp_path / f"tower-{number}.pt", build_tower(CLOUD.tower_layers).state_dict())
    found = [tower_of(CLOUD, course, "", tmp_path).state_dict() for course in (first, last)]
    for course, state in zip((first, last), found, strict=True):
        saved = torch.load(tmp_path / f"tower-{course.tower}.pt", weights_only=True)
        assert all(torch.equal(saved[name], value) for name, value in state.items())
    assert not torch.equal(found[0]["layers.0.fc1.weight"], found[1]["layers.0.fc1.weight"])
    assert features_folder(CLOUD, first) != features_folder(CLOUD, last)


def test_a_cloud_without_its_tower_cannot_be_trained(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        tower_of(CLOUD, COURSES[CLOUD][0], "", tmp_path)
