"""A clip to measure with."""

from __future__ import annotations

from specdec_cli.bench.clips import Clip
from specdec_cli.captioner import Captioner
from tests.mini_pair import voice


def clip_of(captioner: Captioner) -> Clip:
    """A second and a half of sound, as prompts for both models of `captioner`."""
    edge, cloud = captioner.prompts(voice(3), captioner.setup.prompt)
    assert edge is not None
    assert cloud is not None
    return Clip("voice", 1.5, edge, cloud)
