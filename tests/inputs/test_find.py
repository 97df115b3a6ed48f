"""Files, folders, patterns and lists: which recordings they are, and what they are called."""

import io
import os
from pathlib import Path

import pytest

from specdec_cli.errors import ConfigError
from specdec_cli.inputs.find import Paths, find_recordings, relative_name, with_list

TREE = ("a/x.wav", "a/y.FLAC", "a/notes.txt", "a/.hidden.wav", "b/x.wav", "b/deep/x.wav", "b/deep/z.mp3", "top.ogg")


@pytest.fixture
def tree(tmp_path) -> Path:
    for name in TREE:
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"-")
    return tmp_path / "tree"


def found(tree: Path, *paths: str | Path, **options: object) -> list[str]:
    inputs = Paths([str(path) for path in paths], **options)
    return [os.path.relpath(item.path, tree) for item in inputs]


def test_a_folder_gives_its_recordings_and_nothing_else(tree):
    assert found(tree, tree) == ["top.ogg"]
    assert found(tree, tree / "a") == ["a/x.wav", "a/y.FLAC"]
    (tree / "b" / "again").symlink_to(tree)  # a circle
    assert found(tree, tree, recursive=True) == [
        "top.ogg", "a/x.wav", "a/y.FLAC", "b/x.wav", "b/deep/x.wav", "b/deep/z.mp3"
    ]  # fmt: skip


def test_a_pattern_as_a_path_is_expanded(tree):
    assert found(tree, tree / "a" / "*.txt") == ["a/notes.txt"]  # whatever its ending
    assert found(tree, tree / "*" / "x.wav") == ["a/x.wav", "b/x.wav"]
    assert found(tree, tree / "**" / "*.mp3") == ["b/deep/z.mp3"]
    (tree / "b" / "again").symlink_to(tree)  # a circle
    everything = ["a/notes.txt", "a/x.wav", "a/y.FLAC", "b/deep/x.wav", "b/deep/z.mp3", "b/x.wav", "top.ogg"]
    assert found(tree, f"{tree}/**") == found(tree, f"{tree}/**/") == everything
    assert found(tree, tree / "**" / "x**") == ["a/x.wav", "b/deep/x.wav", "b/x.wav"]
    assert found(tree, tree / "b**" / "**" / "deep" / "*.wav") == ["b/deep/x.wav"]
    (tree / "a[1].wav").write_bytes(b"-")  # a name that only looks like a pattern
    assert found(tree, tree / "a[1].wav") == ["a[1].wav"]


def test_a_recording_comes_once(tree):
    assert found(tree, tree / "a", tree / "a" / "x.wav", tree / "b" / ".." / "a", tree / "a" / "*.wav") == [
        "a/x.wav",
        "a/y.FLAC",
    ]


def test_the_run_s_own_files_are_left_out(tree):
    without = frozenset({str(tree / "a" / "x.wav"), str(tree / "b")})
    assert found(tree, tree, recursive=True, without=without) == ["top.ogg", "a/y.FLAC"]


@pytest.mark.parametrize(
    ("listed", "names"),
    [
        (b"a.wav\r\nb c.wav\n\n", [b"a.wav", b"b c.wav"]),
        (b"a\nb.wav\0c.wav\0", [b"a\nb.wav", b"c.wav"]),
        (b"\xff.wav\n", [b"\xff.wav"]),
    ],
)
def test_a_list_is_split_at_lines_or_at_nuls(listed, names, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(listed)))
    assert [os.fsencode(name) for name in with_list(["-"])] == names


def test_names_mirror_the_folders_and_never_collide(tree):
    for paths in ([tree], [tree / "a", tree / "b"], [tree / "a" / "x.wav", tree / "b" / "x.wav"], [tree / "*" / "*"]):
        inputs = Paths([str(path) for path in paths], recursive=True)
        names = [relative_name(item.key.path, inputs.base) for item in inputs]
        assert len(set(names)) == len(names) > 1
        assert {"a/x.wav", "b/x.wav"} <= set(names)
    single = Paths([str(tree / "b")], recursive=True)
    assert sorted(relative_name(item.key.path, single.base) for item in single) == ["deep/x.wav", "deep/z.mp3", "x.wav"]


def test_a_recording_from_elsewhere_keeps_its_whole_path():
    assert relative_name("/data/x.wav", "/home/me") == "outside/data/x.wav"
    assert relative_name("/home/me2/x.wav", "/home/me") == "outside/home/me2/x.wav"


def test_every_command_takes_patterns_folders_and_a_list(tree, monkeypatch):
    monkeypatch.chdir(tree)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"top.ogg\nb/x.wav\n")))
    assert find_recordings(["a/*.wav", "-", "b"]) == ["a/x.wav", "top.ogg", "b/x.wav"]
    assert find_recordings(["none.wav", "**/z.*"], limit=1) == ["none.wav"]  # whoever opens it says that it is gone
    (tree / "empty").mkdir()
    with pytest.raises(ConfigError, match="no recordings in"):
        find_recordings(["a", "empty"])
