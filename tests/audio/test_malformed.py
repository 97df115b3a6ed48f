from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from specdec_cli.errors import AudioDecodeError, AudioError
from tests.audio.encode import healthy, load_audio
from tests.audio.malformed import CASES, MalformedFile, malformed_files


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, MalformedFile]:
    folder = tmp_path_factory.mktemp("malformed")
    made = malformed_files(folder, seed=0)
    return {str(file.path.relative_to(folder)): file for file in made}


def test_there_are_enough_and_no_two_alike(files: dict[str, MalformedFile]) -> None:
    assert len(files) == len(CASES) >= 120
    assert min(Counter(case.kind for case in CASES).values()) >= 8


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_is_refused_with_its_own_error(
    name: str, files: dict[str, MalformedFile], capfd: pytest.CaptureFixture[str]
) -> None:
    file = files[name]
    with pytest.raises(AudioError) as raised:
        load_audio(file.path)
    assert type(raised.value) is file.expected_error, raised.value.message
    assert file.path.name in raised.value.message
    assert raised.value.message.endswith(".")
    assert "\n" not in raised.value.message
    assert raised.value.hint
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "")


@pytest.mark.parametrize("codec", [0x0055, 0x0161])  # MP3, WMA: libsndfile leaves them to FFmpeg
def test_a_seek_beyond_every_file_prints_nothing(codec: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A header that sends FFmpeg to where no file system goes; PyAV prints a traceback where a Python reader raises."""
    damaged, path = bytearray(healthy("w64", 0.5)), tmp_path / "clip.w64"
    damaged[64:66] = codec.to_bytes(2, "little")
    size = damaged.index(b"data") + 16
    damaged[size : size + 8] = (1 << 56).to_bytes(8, "little")
    path.write_bytes(damaged)
    with pytest.raises(AudioDecodeError):
        load_audio(path)
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "")


def test_the_same_seed_gives_the_same_bytes(files: dict[str, MalformedFile], tmp_path: Path) -> None:
    again = {str(file.path.relative_to(tmp_path)): file.path for file in malformed_files(tmp_path, seed=0)}
    different = [
        name
        for name, path in again.items()
        if path.is_file()
        and not path.is_symlink()
        and path.read_bytes() != files[name].path.read_bytes()
        # FFmpeg and libsndfile put random serial numbers and identifiers into Ogg and Matroska
        and not name.endswith(("ogg", "opus", "webm", "mka", "mkv"))
    ]
    assert different == []
