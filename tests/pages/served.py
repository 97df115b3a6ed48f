"""A server of the mini pair in a thread of this process, with its page."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from specdec_cli.captioner import Captioner
from specdec_cli.config import load_config
from specdec_cli.serve.limits import ServeLimits
from specdec_cli.serve.server import Place, bind, offered, server
from tests.mini_pair import captioner_for

TOKEN = "a-token-of-these-tests"


class Served(NamedTuple):
    """Where it listens, and what it captions with, described as its answers are."""

    url: str
    captioner: Captioner


@contextmanager
def serving(token: str | None = None, **limits: int) -> Iterator[Served]:
    """A server on a free port, which ends with the block."""
    resolved = load_config("mini", environ={})
    place, captioner = Place("127.0.0.1", 0), captioner_for(resolved.config)
    offer = offered(captioner, resolved, ServeLimits(**limits), 4)
    assert offer.captions is not None
    with bind(place) as bound:
        running = server(offer, place, token)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [bound]})
        bound.listen()
        thread.start()
        try:
            yield Served(f"http://127.0.0.1:{bound.getsockname()[1]}", offer.captions.loaded)
        finally:
            running.should_exit = True
            thread.join(30)
            assert not thread.is_alive()
