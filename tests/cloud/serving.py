"""A verify server in a thread of this process, and clients of it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from specdec_cli.cloud.protocol import BlockRequest, ClipRequest, as_sent
from specdec_cli.cloud.verify_client import VerifyClient
from specdec_cli.config import Server
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.serve.app import Offer
from specdec_cli.serve.limits import ServeLimits
from specdec_cli.serve.server import ServerAddress, bind, server
from specdec_cli.serve.verification import Service
from tests.laws.cases import Case
from tests.waiting import until

WAIT_S = 120


class Running:
    """The product's own server on a free port of this machine, run by a thread instead of a process."""

    def __init__(self, offer: Offer, token: str | None = None) -> None:
        place = ServerAddress("127.0.0.1", 0)
        self._socket, self._server = bind(place), server(offer, place, token)
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})
        self._thread.start()
        assert until(lambda: self._server.started)

    def stop(self) -> None:
        """Ends it as SIGTERM would."""
        self._server.should_exit = True
        self._thread.join(WAIT_S)
        self._socket.close()
        assert not self._thread.is_alive()


class Served(Running):
    """One that verifies with a model."""

    def __init__(self, model: AudioLM, *, token: str | None = None, **limits: Any) -> None:
        self.service = Service(model, ServeLimits(**limits))
        self.offer = Offer(self.service.limits, self.service)
        super().__init__(self.offer, token)


@contextmanager
def serving(model: AudioLM, **settings: Any) -> Iterator[Served]:
    """A server of a model, which ends with the block."""
    served = Served(model, **settings)
    try:
        yield served
    finally:
        served.stop()


@contextmanager
def remote_cloud(url: str, edge: AudioLM, *, own: bool = False, **settings: Any) -> Iterator[VerifyClient]:
    """A client of a server, with the edge's processor."""
    cloud = VerifyClient(Server(url=url, **{"timeout_s": 20.0, **settings}), edge.processor, own=own)
    try:
        yield cloud
    finally:
        cloud.close()


def clip_message(identity: str, case: Case, block: BlockRequest | None) -> tuple[ClipRequest, dict[str, torch.Tensor]]:
    """A case's clip as a client sends it, and its tensors."""
    assert case.cloud_prompt.waveform is not None
    clip = ClipRequest(
        identity=identity, prompt_ids=list(case.cloud_prompt.ids), samples=len(case.cloud_prompt.waveform), capacity=30,
        longest=30, vocab_size=case.pair.vocab_size, stop_ids=list(case.cloud.processor.eos_ids),
        scoring=case.config.decoding.scoring(), acceptance=case.config.decoding.rules, block=block,
    )  # fmt: skip
    return clip, as_sent(case.cloud_prompt.audio)
