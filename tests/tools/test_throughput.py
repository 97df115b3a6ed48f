"""The comparison of variants to caption: the same work in each of them, and every part of it accounted for once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.mini_pair import captioner, write_voice
from tools.meter import PARTS, Meter
from tools.throughput import Runner, Timing, Variant, main, ratios, take_turns, variants


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    return [str(write_voice(tmp_path / f"{n}.wav", n, 0.5 + 0.2 * n)) for n in range(6)]


@pytest.mark.full
def test_every_variant_captions_the_same(files: list[str]) -> None:
    several = variants(1)
    assert [(variant.mode, variant.batch) for variant in several] == [
        ("hybrid", True),
        ("hybrid", False),
        ("edge", False),
    ]
    assert len(variants(2)) == 5
    timings = list(take_turns(Runner("mini", workers=1), files, several, group=3))
    assert len(timings) == 2 * len(several)
    assert [t.variant for t in timings[:3]] != [t.variant for t in timings[3:]]  # the order rotates
    for group in (timings[:3], timings[3:]):
        tokens = {t.variant: t.tokens for t in group}
        assert tokens[several[0].name] == tokens[several[1].name] > 0
    for t in timings:
        assert set(t.parts) <= set(PARTS)
        assert t.parts["audio"] > 0
        assert t.parts["edge tower"] > 0
        assert t.parts["edge steps"] > 0
        assert sum(t.parts.values()) <= 1.02 * t.cpu_s
        assert ("cloud tower" in t.parts) <= t.variant.startswith("hybrid")
    assert len(ratios(timings, several[0].name, several[2].name)) == 2


def test_ratios_are_of_tokens_per_second() -> None:
    def timings(variant: str, wall_s: float) -> Timing:
        return Timing(variant, 1, 30, wall_s, 1.0, {}, 0.0)

    assert ratios([timings("a", 1.0), timings("b", 4.0), timings("a", 2.0), timings("b", 3.0)], "a", "b") == [4.0, 1.5]


def test_a_meter_leaves_nothing_behind(files: list[str]) -> None:
    ours = captioner(decoding__mode="hybrid", decoding__max_new_tokens=3)
    with Meter(ours, lambda: 0.0):
        measured = ours.caption(files[0]).caption
    for owner in (ours, ours.pair.edge, ours.pair.cloud):
        assert not {"recording", "prompts", "forward"} & set(vars(owner))
    assert ours.caption(files[0]).caption == measured


def test_threads_are_given_back(files: list[str]) -> None:
    before = torch.get_num_threads()
    Runner("mini").run(Variant("edge", "edge", True, 2), files[:2])
    assert torch.get_num_threads() == before


@pytest.mark.full
def test_the_command_prints_a_table(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main(str(Path(files[0]).parent), clips=4, group=2, threads=1, sizes="1,5")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[0] == "tokens/s"
    assert any(line.startswith("hybrid, batch / edge, one by one, 1 thread: ") for line in lines)
    assert [line.split()[0] for line in lines[-2:]] == ["1", "5"]
