"""The parts of a start."""

import re

import pytest

from tools import start


@pytest.mark.slow
def test_the_parts_of_a_start_are_timed(capsys):
    start.main(starts=1)
    lines = capsys.readouterr().out.splitlines()[2:]
    rows = [re.fullmatch(r"([a-z-]+(?: [a-z]+)*).*?(\d+) ms +(\d+) ms *", line) for line in lines]
    walls = {row[1]: float(row[2]) for row in rows if row}
    assert [*walls] == [*(name for name, _ in start.PARTS), "together"]
    assert walls["torch"] > walls["audio"] > 0
    together = sum(wall for name, wall in walls.items() if name not in ("together", "warm-up"))
    assert walls["together"] == pytest.approx(together, abs=len(walls))
