"""Against a real vLLM server: the same texts, round for round, as with the cloud in this process."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

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
        corrected += sum("corrected" in round_.source for round_ in there[0])
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


def test_the_cloud_alone_writes_its_own_text(link: VllmCloud) -> None:
    for number in range(200, 210):
        drawn = case(number, mode="cloud", acceptance=None)
        assert drawn.run(link)[1].token_ids == drawn.run()[1].token_ids, number


@pytest.mark.parametrize("prefill", ["early", "overlap"])
def test_sending_the_recording_early_changes_nothing(link: VllmCloud, prefill: str) -> None:
    for number in range(300, 305):
        drawn = case(number, mode="lossless", acceptance=None, cloud_prefill=prefill)
        _, finished = drawn.run(link)
        assert finished.token_ids == drawn.run()[1].token_ids, number
        assert finished.cloud is not None
        assert finished.cloud.encoder_passes == 1


def test_clips_at_the_same_time_do_not_mix(link: VllmCloud) -> None:
    cases = [case(number, mode="lossless", acceptance=None) for number in range(400, 408)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda drawn: drawn.run(link)[1].token_ids, cases))
    assert found == [drawn.run()[1].token_ids for drawn in cases]
