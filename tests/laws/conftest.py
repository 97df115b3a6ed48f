"""Runs a law over its cases, counts the texts that part, and says so at the end of the run."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.laws.cases import Case
from tests.laws.checks import Check
from tests.laws.tolerance import most_parting

Run = Callable[[str, Iterable[Case], Check], list[Case]]


@pytest.fixture
def law(record_property) -> Run:
    """`law(name, cases, check)`: every case keeps the law, and few texts part; returns the cases with what they ran."""

    def run(name: str, cases: Iterable[Case], check: Check) -> list[Case]:
        checked, parted = [], []
        for case in cases:
            if (how := check(case)) is not None:
                parted.append(how)
            checked.append(case)
        told = f"{name}: {len(checked)} cases, {len(parted)} texts part"
        record_property("law", told + "".join(f"\n  {p}" for p in parted))
        assert len(parted) <= most_parting(len(checked)), parted
        return checked

    return run


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line a law; the properties of a test travel to here from other processes as well."""
    reports = (report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, []))
    found = [value for report in reports for name, value in getattr(report, "user_properties", ()) if name == "law"]
    if found:
        terminalreporter.section("laws")
        for line in sorted(set(found)):
            terminalreporter.write_line(line)
