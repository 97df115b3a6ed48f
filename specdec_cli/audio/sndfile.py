"""libsndfile: WAV, FLAC, Ogg, AIFF, AU, CAF and its many old formats.

MP3 never comes here: libsndfile's MP3 decoder writes to stderr. The file is passed as a descriptor, because soundfile
would guess from the name (`x.raw` raises), and an error inside a Python reader would be printed by the C layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from typing import Any

from specdec_cli.audio.decoded import DamagedAudio, Decoded, Floats, NotThisDecoder, require_plausible

_BLOCK_SAMPLES = 1 << 18
_UNKNOWN_FRAMES = 1 << 62  # FLAC and Ogg of unknown length claim 2**63 - 1
_MALFORMED = 3


@contextmanager
def open_sndfile(file: FileIO) -> Iterator[Decoded]:
    """Open a recording with libsndfile.

    Raises:
        NotThisDecoder: the format, the codec or a stream of unknown length is not for libsndfile.
        DamagedAudio: the format is known and its header is broken.
    """
    import soundfile

    file.seek(0)
    try:
        sound = soundfile.SoundFile(file.fileno(), closefd=False)
    except soundfile.LibsndfileError as error:
        if error.code == _MALFORMED:
            raise DamagedAudio("it is damaged or cut short") from error
        raise NotThisDecoder(error.error_string.rstrip(".")) from error
    except (soundfile.SoundFileError, RuntimeError, TypeError, ValueError) as error:
        raise NotThisDecoder(str(error)) from error
    with sound:
        require_plausible(sound.samplerate, sound.channels)
        if sound.frames == 0 or sound.frames > _UNKNOWN_FRAMES:  # 0: also a streamed WAV, which FFmpeg reads on
            raise NotThisDecoder("its length is not known in advance")
        yield Decoded(sound.samplerate, sound.channels, sound.frames, _blocks(sound))


def _blocks(sound: Any) -> Iterator[Floats]:
    import soundfile

    size = max(1, _BLOCK_SAMPLES // sound.channels)
    done = 0
    while done < sound.frames:
        try:
            block: Floats = sound.read(min(size, sound.frames - done), dtype="float32", always_2d=True)
        except (soundfile.SoundFileError, RuntimeError, ValueError) as error:
            where = f", at {done / sound.samplerate:.1f} s or later" if done else ""
            raise DamagedAudio(f"it is damaged or cut short{where}") from error
        if not len(block):
            raise DamagedAudio(
                f"its header promises {sound.frames / sound.samplerate:.1f} s, "
                f"but it ends after {done / sound.samplerate:.1f} s"
            )
        done += len(block)
        yield block
