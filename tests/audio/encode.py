"""Sounds and encoded files for the tests, made on the spot with libsndfile and FFmpeg."""

import io
import math
import os
import struct
from functools import cache

import av
import numpy as np
import soundfile
from numpy.typing import NDArray

from specdec_cli.audio import Recording, open_recording

Samples = NDArray[np.float32]

SNDFILE: dict[str, tuple[str, str]] = {
    "wav": ("WAV", "PCM_16"), "pcm24.wav": ("WAV", "PCM_24"), "pcm32.wav": ("WAV", "PCM_32"),
    "u8.wav": ("WAV", "PCM_U8"), "float.wav": ("WAV", "FLOAT"), "double.wav": ("WAV", "DOUBLE"),
    "ulaw.wav": ("WAV", "ULAW"), "extensible.wav": ("WAVEX", "PCM_16"), "rf64": ("RF64", "PCM_16"),
    "w64": ("W64", "PCM_16"), "aiff": ("AIFF", "PCM_16"), "au": ("AU", "PCM_16"), "caf": ("CAF", "PCM_16"),
    "flac": ("FLAC", "PCM_16"), "24.flac": ("FLAC", "PCM_24"), "ogg": ("OGG", "VORBIS"), "sf.opus": ("OGG", "OPUS"),
    "sf.mp3": ("MP3", "MPEG_LAYER_III"),
}  # fmt: skip
"""Extension -> libsndfile's format and subtype."""

FFMPEG: dict[str, tuple[str, str]] = {
    "m4a": ("mp4", "aac"), "alac.m4a": ("mp4", "alac"), "mp4": ("mp4", "aac"), "mov": ("mov", "aac"),
    "webm": ("webm", "libopus"), "mka": ("matroska", "flac"), "opus": ("ogg", "libopus"), "aac": ("adts", "aac"),
    "mp3": ("mp3", "libmp3lame"), "avi": ("avi", "mp2"),
}  # fmt: skip
"""Extension -> FFmpeg's muxer and encoder."""

PADDED = frozenset({"m4a", "mp4", "mov", "aac", "avi", "sf.mp3", "mp3"})
"""Formats whose encoders pad the end to a whole frame."""


def tone(seconds: float, rate: int = 16000, hz: float = 440.0, amplitude: float = 0.3, channels: int = 1) -> Samples:
    """A sine, float32 [n, channels]."""
    time = np.arange(round(seconds * rate)) / rate
    return np.repeat((amplitude * np.sin(2 * np.pi * hz * time)).astype(np.float32)[:, None], channels, axis=1)


def sndfile_bytes(samples: Samples, rate: int, extension: str) -> bytes:
    """A file written by libsndfile, in small blocks: its Vorbis encoder overflows the stack on large ones."""
    target = io.BytesIO()
    container, subtype = SNDFILE[extension]
    with soundfile.SoundFile(target, "w", rate, samples.shape[1], format=container, subtype=subtype) as sound:
        for start in range(0, len(samples), 4096):
            sound.write(samples[start : start + 4096])
    data = bytearray(target.getvalue())
    if (peak := data.find(b"PEAK", 0, 200)) > 0:
        data[peak + 12 : peak + 16] = bytes(4)  # the time of writing
    return bytes(data)


def wav_bytes(
    data: bytes,
    claimed: int | None = None,
    *,
    riff: int | None = None,
    before: bytes = b"",
    after: bytes = b"",
    tag: int = 1,
    channels: int = 1,
    rate: int = 16000,
    bits: int = 16,
    align: int | None = None,
) -> bytes:
    """A RIFF WAVE with whatever header is asked for, `claimed` bytes of data, and other chunks around them."""
    align = channels * bits // 8 if align is None else align
    fmt = struct.pack("<HHIIHH", tag, channels, rate, rate * align & 0xFFFFFFFF, align, bits)
    head = b"WAVEfmt " + struct.pack("<I", len(fmt)) + fmt + before
    body = head + b"data" + struct.pack("<I", len(data) if claimed is None else claimed) + data + after
    return b"RIFF" + struct.pack("<I", len(body) if riff is None else riff) + body


def ffmpeg_bytes(
    samples: Samples, rate: int, extension: str, *, options: dict[str, str] | None = None, duration: str | None = None
) -> bytes:
    """A file written by FFmpeg; `duration` is what a tag of its sound track claims."""
    container, codec = FFMPEG[extension]
    target = io.BytesIO()
    with av.open(target, "w", format=container, container_options=options or {}) as output:
        stream = output.add_stream(codec, rate=rate)
        stream.layout = "mono"
        if duration is not None:
            stream.metadata["OTHERTAG"] = duration
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples.T), format="fltp", layout="mono")
        frame.sample_rate, frame.pts = rate, 0
        context = stream.codec_context
        resampler = av.AudioResampler(context.format, "mono", rate, context.frame_size or 1024)
        for piece in [*resampler.resample(frame), *resampler.resample(None)]:
            output.mux(stream.encode(piece))
        output.mux(stream.encode(None))
    return target.getvalue().replace(b"OTHERTAG", b"DURATION")  # which FFmpeg does not let one write


def clocked(container: str, codec: str, at_s: list[float], *, picture: bool = False, tracks: int = 1) -> bytes:
    """A second of sound at each of some times, and perhaps a picture from the start; later tracks are an octave up."""
    target, rate = io.BytesIO(), 48000
    with av.open(target, "w", format=container) as output:
        video = output.add_stream("mpeg4", rate=10) if picture else None
        if video is not None:
            video.width, video.height, video.pix_fmt = 32, 32, "yuv420p"
        streams = [output.add_stream(codec, rate=rate, layout="mono", options={"strict": "-2"}) for _ in range(tracks)]
        for _ in range(10) if video else ():
            output.mux(video.encode(av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8), format="rgb24")))
        for number, stream in enumerate(streams):
            context, sound = stream.codec_context, tone(1.0, rate, 440.0 * 2**number)
            step = context.frame_size or 1024
            for start_s in at_s:
                for begin in range(0, rate - step + 1, step):
                    piece = np.ascontiguousarray(sound[begin : begin + step].T)
                    frame = av.AudioFrame.from_ndarray(piece, format="fltp", layout="mono")
                    frame.sample_rate, frame.pts = rate, round(start_s * rate) + begin
                    for each in av.AudioResampler(context.format, "mono", rate, step).resample(frame):
                        each.pts = frame.pts
                        output.mux(stream.encode(each))
            output.mux(stream.encode(None))
        if video is not None:
            output.mux(video.encode(None))
    return target.getvalue()


def encrypted() -> bytes:
    """An MP4 of a second, encrypted by Common Encryption (ISO/IEC 23001-7)."""
    keys = {"encryption_key": "76a6c65c5ea762046bd749a2e632ccbb", "encryption_kid": "a7e61c373e219033c21091fa607bf3b8"}
    return ffmpeg_bytes(tone(1.0), 16000, "mp4", options={"encryption_scheme": "cenc-aes-ctr", **keys})


@cache
def healthy(extension: str, seconds: float = 1.0, amplitude: float = 0.3) -> bytes:
    """A valid 16 kHz (Opus: 48 kHz) mono file with a 440 Hz tone, in any of the formats above."""
    rate = 48000 if extension in ("opus", "webm") else 16000
    samples = tone(seconds, rate, amplitude=amplitude)
    return sndfile_bytes(samples, rate, extension) if extension in SNDFILE else ffmpeg_bytes(samples, rate, extension)


def load_audio(path: str | os.PathLike[str], sampling_rate: int = 16000) -> tuple[Samples, Recording]:
    """A whole recording: its samples [n], and what describes them."""
    recording = open_recording(path, sampling_rate, window_s=math.inf)
    (piece,) = recording.pieces()
    return piece.samples, recording
