"""Against a real vLLM server: the same texts, round for round, as with the cloud in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from specdec_cli.cloud.vllm import VllmCloud
from tests.cloud.tiny_qwen2_audio import audio_module, write_audio_checkpoint
from tests.cloud.vllm_cases import CLOUD, case, cloud, configured, outcome
from tests.cloud.vllm_server import serving

pytestmark = [pytest.mark.full, pytest.mark.vllm]

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
    connected = VllmCloud(configured(url), cloud().processor, own=False)
    assert connected.http.failure is None
    yield connected
    connected.close()


@pytest.mark.parametrize("draft_ahead", ["on", "off"])
def test_rounds_equal_those_in_process(link: VllmCloud, draft_ahead: str) -> None:
    accepted = corrected = 0
    for number in range(CASES):
        drawn = case(number, draft_ahead=draft_ahead)
        here, there = drawn.run(), drawn.run(link)
        assert outcome(*there) == outcome(*here), number
        assert there[1].degraded is None
        accepted += sum(round_.accepted for round_ in there[0] if round_.escalated)
        corrected += sum(round_.corrected for round_ in there[0])
    assert accepted > CASES  # or the cases would show nothing
    assert corrected > CASES


def test_running_on_equals_running_on_in_process(link: VllmCloud) -> None:
    more = 0
    for number in range(100, 110):
        drawn = case(number, mode="hybrid", gate="always", run_on=1 + number % 4)
        here, there = drawn.run(), drawn.run(link)
        assert outcome(*there) == outcome(*here), number
        more += sum(round_.source.count("cloud") for round_ in there[0])
    assert more > 10
