"""Tools that measure or draw run from the command line, at the smallest size."""

import json
from pathlib import Path

import pytest

from tests.mini_pair import write_voice
from tools import load, picture, reference, served

pytestmark = pytest.mark.slow


def test_a_server_under_load_answers_as_batch_does(monkeypatch, capsys):
    monkeypatch.setattr(load, "_DISTINCT", 4)
    load.main(requests=8, at_a_time=4, vanishing=4, rounds=2, seconds=0.6)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-4] == "8 asked, 0 lost, 0 other than batch's, 4 clients vanished"
    assert lines[-5] == "left over: 0 requests, 0 bytes"
    assert lines[0].endswith(" MiB")


def test_a_batch_is_counted_and_a_command_runs_in_its_middle(tmp_path, capsys):
    for number in range(4):
        write_voice(tmp_path / f"{number}.wav", number)
    marker = tmp_path / "restarted"
    served.main(tmp_path, "mini", in_flight="2", restart=f"echo >> {marker}")
    (line,) = capsys.readouterr().out.splitlines()
    counted = {name: json.loads(line)[name] for name in ("recordings", "captions", "twice", "failed", "degraded")}
    assert counted == {"recordings": 4, "captions": 4, "twice": 0, "failed": 0, "degraded": 0}


def test_readmes_pictures_are_drawn(tmp_path, monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[2])
    for name, file in (("PICTURE", "view.svg"), ("PAGE", "page.png")):
        monkeypatch.setattr(picture, name, tmp_path / file)
    picture.main()
    assert "en_male_pauses" in (tmp_path / "view.svg").read_text("utf-8")
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")


def test_generated_files_are_written(tmp_path, monkeypatch):
    pages = {tmp_path / path.name: page for path, page in reference.PAGES.items()}
    monkeypatch.setattr(reference, "PAGES", pages)
    reference.main()
    assert {path.name for path in tmp_path.iterdir()} == {"configuration.md", "schema-1.json"}
