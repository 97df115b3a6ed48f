"""Completion in the shell, by the protocol that the installed scripts speak."""

import sys

import pytest

from specdec_cli.cli import main

WORDS = [
    ("specdec ca", {"caption"}),
    ("specdec config ", {"show"}),
    ("specdec caption --mode l", {"lossless"}),
    ("specdec caption --gate log", {"logprob"}),
    ("specdec batch --mode ", {"hybrid", "lossless", "edge", "cloud"}),
    ("specdec tune --refe", {"--references"}),
]


def completed(line: str, shell: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> list[str]:
    words = line.split(" ")
    monkeypatch.setattr(sys, "argv", ["specdec"])
    monkeypatch.setenv("_SPECDEC_COMPLETE", f"complete_{shell}")
    if shell == "bash":
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    else:
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", line)
    with pytest.raises(SystemExit):
        main()
    return capfd.readouterr().out.split()


@pytest.mark.parametrize(("line", "expected"), WORDS, ids=[line for line, _ in WORDS])
def test_bash_completes_commands_options_and_values(line, expected, monkeypatch, capfd):
    assert set(completed(line, "bash", monkeypatch, capfd)) == expected


def test_completion_installs(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    monkeypatch.setattr(sys, "argv", ["specdec", "--install-completion", "bash"])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    assert "specdec" in (tmp_path / ".bashrc").read_text()
