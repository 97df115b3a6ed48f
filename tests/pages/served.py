"""A server of the mini pair in a thread of this process, with its page."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from specdec_cli.captioner import Captioner
from specdec_cli.config import load_config
from specdec_cli.serve.limits import ServeLimits
from specdec_cli.serve.server import offered
from tests.cloud.serving import Running
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
    offer = offered(captioner_for(resolved.config), resolved, ServeLimits(**limits), 4)
    running = Running(offer, token)
    try:
        yield Served(running.url, offer.captions.loaded)
    finally:
        running.stop()
