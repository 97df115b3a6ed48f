"""The picture of a recording: its sound, its pieces and their classes, a minute a row; and what is refused."""

import signal
import struct
import threading
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import soundfile

from specdec_cli import interrupts
from specdec_cli.errors import AudioError
from specdec_cli.export import spectra
from specdec_cli.export.recordings import Stored
from specdec_cli.export.spectra import rows_of
from specdec_cli.export.timeline import timeline
from specdec_cli.inputs.recording import InputFile
from tests.mini_pair import RATE, voice
from tests.support.transcripts import piece, write

ANN = "安娜 $1$ <b>"


def recording(folder: Path, seconds: float, *pieces: dict[str, object]) -> Stored:
    """A recording of that length, whose pieces are 2 s long and begin where `at` says."""
    path = folder / "talk.wav"
    soundfile.write(path, np.resize(voice(1, 3), round(seconds * RATE)), RATE)
    known = {"file": str(path), "recording_s": seconds, "sha256": InputFile(str(path)).content()}
    lines = [piece(at, at + 2, **{**known, **more}) for more in pieces for at in [float(more.pop("at", 0.0))]]
    return Stored.read(write(folder, *lines))


def texts(stored: Stored) -> list[str]:
    (found,) = stored
    root = ElementTree.fromstring(timeline(found, "svg"))
    return ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.slow  # librosa compiles for half a minute where it never ran
def test_classes_speakers_and_what_the_sound_contradicts_are_drawn_in_the_language_of_the_captions(tmp_path):
    first = {"labels": {"pitch": "low", "emotion": "happy"}, "agrees": {"pitch": False}, "speaker": ANN}
    second = {"at": 2.5, "labels": {"pitch": "high", "emotion": "odd"}, "speaker": "Bob"}
    found = texts(recording(tmp_path, 6.0, dict(first), dict(second), {"at": 4.5, "flags": ["no_speech"]}))
    assert {"talk · 0:06", "speaker", ANN, "Bob", "pitch", "low", "high", "emotion", "happy", "odd"} <= {*found}
    assert {"kHz", "F0, Hz", "dBFS", "time, s"} <= {*found}
    assert found.count("underlined red: the measured sound says otherwise · hatched: no speech was found") == 1
    chinese = texts(recording(tmp_path, 6.0, {**first, "agrees": {}, "language": "zh"}))
    assert {"音高", "低", "情绪", "高兴", "说话人", ANN, "时间（秒）"} <= {*chinese}
    assert not any("红色" in text for text in chinese)


@pytest.mark.slow
def test_a_row_has_a_minute_and_a_piece_is_drawn_in_each_row_that_it_is_in(tmp_path):
    said = {"labels": {"emotion": "sad"}}
    found = texts(recording(tmp_path, 130.0, {**said, "at": 59.0}, {**said, "at": 70.0}))
    assert [found.count(name) for name in ("F0, Hz", "emotion", "sad")] == [3, 3, 3]
    assert {"0:00", "1:00", "2:00", "time, min:s"} <= {*found}


def test_a_signal_ends_a_picture_while_its_libraries_are_loaded(tmp_path, monkeypatch):
    """Their import compiles code, and lasts longer than a command has to end."""
    loaded = threading.Event()

    def load() -> None:
        interrupts.ask(signal.SIGTERM)
        loaded.wait(60)

    monkeypatch.setattr(spectra, "_librosa", load)
    (found,) = recording(tmp_path, 3.0, {"labels": {"emotion": "sad"}})
    with pytest.raises(SystemExit) as ended:
        timeline(found, "svg")
    loaded.set()
    assert ended.value.code == 128 + signal.SIGTERM


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["png", "pdf"])
def test_other_kinds_are_images(tmp_path, kind):
    (found,) = recording(tmp_path, 3.0, {"labels": {"emotion": "sad"}})
    made = timeline(found, kind)
    assert made.startswith({"png": b"\x89PNG", "pdf": b"%PDF"}[kind])
    assert kind == "pdf" or struct.unpack(">II", made[16:24])[0] == 2025
    assert timeline(found, kind) == made


@pytest.mark.slow
def test_the_rows_have_the_sound_of_their_time(tmp_path):
    """A tone of 200 Hz between silences: its level, its F0 and its band."""
    rate, path = 16_000, tmp_path / "tone.wav"
    at = np.arange(2 * rate) / rate
    tone = 0.1 * sum(np.sin(2 * np.pi * 200 * n * at) / n for n in range(1, 8)).astype(np.float32)
    soundfile.write(path, np.concatenate([np.zeros(2 * rate, np.float32), tone]), rate)
    silent, loud = rows_of(str(path), str(InputFile(str(path)).content()), [(0.0, 2.0), (2.0, 4.0)], None, None)
    assert (silent.start_s, loud.start_s) == (0.0, 2.0)
    assert np.isnan(silent.f0_hz).all()
    middle = slice(len(loud.f0_hz) // 4, 3 * len(loud.f0_hz) // 4)
    assert np.nanmedian(loud.f0_hz[middle]) == pytest.approx(200, rel=0.01)
    assert np.median(loud.level_dbfs[middle]) == pytest.approx(10 * np.log10((tone**2).mean()), abs=0.3)
    assert silent.level_dbfs.max() < -60
    assert loud.mel_db.shape[1] * loud.step_s == pytest.approx(2.0, abs=0.05)
    assert loud.mel_db[:, middle].mean(axis=1).argmax() < 10


def test_a_recording_that_changed_or_is_gone_has_no_picture(tmp_path):
    (found,) = recording(tmp_path, 3.0, {"labels": {"emotion": "sad"}})
    path = Path(found.path)
    path.write_bytes(path.read_bytes()[:-2] + b"\1\1")
    with pytest.raises(AudioError, match="has changed since it was captioned"):
        timeline(found, "svg")
    path.unlink()
    with pytest.raises(AudioError, match=r"talk\.wav"):
        timeline(found, "svg")
