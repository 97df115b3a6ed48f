"""The comparison of variants to caption: the same work in each of them, and every part of it accounted for once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mini_pair import write_voice
from tools.throughput import main


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    return [str(write_voice(tmp_path / f"{n}.wav", n, 0.5 + 0.2 * n)) for n in range(6)]


@pytest.mark.full
def test_the_command_prints_a_table(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main(str(Path(files[0]).parent), clips=4, group=2, threads=1, sizes="1,5")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[0] == "tokens/s"
    assert any(line.startswith("hybrid, batch / edge, one by one, 1 thread: ") for line in lines)
    assert [line.split()[0] for line in lines[-2:]] == ["1", "5"]
