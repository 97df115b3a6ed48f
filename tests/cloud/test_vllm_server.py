"""Against a real vLLM server: the same texts, round for round, as with the cloud in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from specdec_cli.cloud.vllm import VllmCloud
from tests.cloud.vllm_cases import CLOUD, case, cloud, configured, outcome
from tests.cloud.vllm_server import serving
from tests.tiny_qwen2_audio import audio_module, write_audio_checkpoint

pytestmark = pytest.mark.vllm

CASES = 50


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that runs `cloud()`."""
    folder = tmp_path_factory.mktemp("vllm")
    with serving(write_audio_checkpoint(folder / "tiny", audio_module(**CLOUD)), folder / "log.txt") as address:
        yield address


@pytest.fixture(scope="module")
def link(url: str) -> Iterator[VllmCloud]:
    """The connection to it."""
    connected = VllmCloud(configured(url), cloud())
    assert connected.trouble is None
    yield connected
    connected.close()


def test_rounds_equal_those_in_process(link: VllmCloud) -> None:
    accepted = corrected = 0
    for number in range(CASES):
        drawn = case(number)
        here, there = drawn.run(), drawn.run(link)
        assert outcome(*there) == outcome(*here), number
        assert there[1].degraded is None
        accepted += sum(round_.accepted for round_ in there[0] if round_.escalated)
        corrected += sum(round_.corrected for round_ in there[0])
    assert accepted > CASES  # or the cases would show nothing
    assert corrected > CASES
