"""SIGTERM ends the tests, also while one of them runs a command in this process."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = """
import signal, sys, time
from tests.cli.status import exit_code

def test_a_command_that_runs_for_long(monkeypatch):
    monkeypatch.setattr("specdec_cli.cli.app.app", lambda **_: (print("running", flush=True), time.sleep(60)))
    exit_code()

def test_the_next_one():
    print("the tests went on")
"""


def test_sigterm_ends_pytest_while_a_command_runs(tmp_path: Path) -> None:
    (tmp_path / "test_two.py").write_text(TESTS)
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", str(tmp_path)]
    pytest = subprocess.Popen(
        command,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert pytest.stdout is not None
    assert any("running" in line for line in iter(pytest.stdout.readline, ""))
    pytest.send_signal(signal.SIGTERM)
    rest, _ = pytest.communicate(timeout=30)
    assert "the tests went on" not in rest
    assert pytest.returncode == -signal.SIGTERM
