"""Recordings as clients of the API send them."""

import base64
import io
from typing import Any

import numpy as np
import numpy.typing as npt
import soundfile
from openai import OpenAI

from tests.mini_pair import RATE, voice


def encoded(samples: npt.NDArray[np.float32], format_: str = "WAV", subtype: str | None = None) -> str:
    """A recording in base64."""
    file = io.BytesIO()
    soundfile.write(file, samples, RATE, format=format_, subtype=subtype)
    return base64.b64encode(file.getvalue()).decode()


def spoken(seed: int, seconds: float = 1.5) -> str:
    """A voice as a WAV in base64."""
    return encoded(voice(seed, seconds))


def message(data: str, format_: str = "wav", text: str | None = None) -> list[dict[str, Any]]:
    """The messages of a request."""
    parts: list[dict[str, Any]] = [{"type": "input_audio", "input_audio": {"data": data, "format": format_}}]
    return [{"role": "user", "content": [*parts, *([{"type": "text", "text": text}] if text is not None else [])]}]


def at_address(url: str) -> list[dict[str, Any]]:
    """The messages of a request whose recording is at an address."""
    return [{"role": "user", "content": [{"type": "audio_url", "audio_url": {"url": url}}]}]


def ask(client: OpenAI, sound: str | list[dict[str, Any]], mode: str = "hybrid", **more: Any) -> Any:
    """The answer to a request about a recording in base64, or to whole messages."""
    messages: Any = message(sound) if isinstance(sound, str) else sound
    return client.chat.completions.create(model=f"specdec/{mode}", messages=messages, **more)


def text_of(answer: Any) -> str:
    """What an answer says, or all chunks of a stream."""
    if hasattr(answer, "choices"):
        return str(answer.choices[0].message.content)
    return "".join(chunk.choices[0].delta.content or "" for chunk in answer if chunk.choices)
