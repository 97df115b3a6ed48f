"""A server of the mini pair in a thread of this process, and recordings as clients of the API send them."""

import base64
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import soundfile
from openai import OpenAI

from specdec_cli.captioner import Captioner
from specdec_cli.config import load_config
from specdec_cli.decoding.pair import Pair
from specdec_cli.serve.app import Offer
from specdec_cli.serve.limits import ServeLimits
from specdec_cli.serve.server import offered
from tests.cloud.serving import Running
from tests.mini_pair import RATE, mini_pair, voice
from tests.waiting import until

TOKEN = "a-token-of-these-tests"


@dataclass
class Api:
    """A running server, and what it offers."""

    offer: Offer
    running: Running
    clients: list[OpenAI] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.running.url

    def client(self, **settings: Any) -> OpenAI:
        """The official client, which tries nothing again."""
        client = OpenAI(base_url=f"{self.url}/v1", api_key=TOKEN, **{"max_retries": 0, "timeout": 120.0} | settings)
        self.clients.append(client)
        return client

    def becomes_idle(self) -> bool:
        """Whether soon nothing of any request is left."""
        return until(lambda: not self.offer.captions.under_way and not self.offer.bodies.held)


@contextmanager
def api(room: int = 4, settings: dict[str, object] | None = None, **limits: Any) -> Iterator[Api]:
    """A server of the mini pair that captions `room` recordings at a time."""
    resolved = load_config("mini", flags=settings or {}, environ={"LANG": "en_US"})
    roles, pair = resolved.config.models, mini_pair()
    loaded = Pair.of(pair.edge if "edge" in roles else None, pair.cloud if "cloud" in roles else None)
    offer = offered(Captioner(resolved.config, loaded), resolved, ServeLimits(**limits), room)
    running = Running(offer, TOKEN)
    try:
        yield (api_ := Api(offer, running))
        for client in api_.clients:
            client.close()
    finally:
        running.stop()


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
