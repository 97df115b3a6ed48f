"""Commands where the system lacks what only POSIX has: modules, calls and descriptors that libraries in C take."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.audio.encode import ffmpeg_bytes, healthy, sndfile_bytes
from tests.cli.harness import environment
from tests.mini_pair import voice

MODULES = ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty")
CALLS = (
    *("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "fork", "forkpty", "getuid", "geteuid", "killpg"),
    *("memfd_create", "mkfifo", "pread", "pwrite", "sched_getaffinity", "setsid", "statvfs", "sysconf", "uname"),
)
SIGNALS = ("SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGUSR1", "SIGUSR2")
WITHOUT = f"""
import builtins, json, os, signal, sys
from types import ModuleType

def lacking(module, names):
    found = ModuleType(module.__name__)
    found.__dict__.update((name, value) for name, value in vars(module).items() if name not in names)
    return found

there = builtins.__import__
lack = dict(os=lacking(os, {CALLS}), signal=lacking(signal, {SIGNALS}))

def imported(name, globals=None, *more, **other):
    if not str((globals or {{}}).get("__name__")).startswith("specdec_cli"):
        return there(name, globals, *more, **other)  # others have code for every system
    if name in {MODULES}:
        raise ModuleNotFoundError(name)
    return lack.get(name) or there(name, globals, *more, **other)

builtins.__import__ = imported
from specdec_cli.cli import main

for arguments in json.loads(sys.argv[1]):
    sys.argv = ["specdec", *arguments]
    try:
        main()
    except SystemExit as end:
        print("ended with", end.code, flush=True)
"""


def without_posix(folder: Path, *commands: list[str], stdin: bytes = b"") -> tuple[str, str]:
    """Runs commands in turn in one process, where the package finds no POSIX: its stdout and stderr."""
    line = [sys.executable, "-c", WITHOUT, json.dumps(commands)]
    variables = environment(LC_ALL="C.UTF-8")
    done = subprocess.run(line, input=stdin, capture_output=True, env=variables, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode(), done.stderr.decode()


def test_help_and_refusals_need_no_posix(tmp_path):
    out, err = without_posix(tmp_path, ["--help"], ["caption", "none.wav"])
    assert "Usage: specdec" in out
    assert out.count("ended with 0") == 1, err
    assert out.count("ended with 2") == 1
    assert "none.wav does not exist" in err


def test_a_recording_on_stdin_is_refused_in_one_sentence(tmp_path):
    out, err = without_posix(tmp_path, ["caption", "-"], stdin=healthy("wav"))
    assert "ended with 2" in out, err
    assert "recording on stdin" in err


@pytest.mark.slow
def test_recordings_are_captioned_exported_and_compared_without_posix(tmp_path):
    sound = voice(1)[:, None]
    (tmp_path / "whole.flac").write_bytes(sndfile_bytes(sound, 16000, "flac"))
    (tmp_path / "float.wav").write_bytes(sndfile_bytes(sound, 16000, "float.wav"))
    (tmp_path / "sound.m4a").write_bytes(ffmpeg_bytes(sound, 16000, "m4a"))
    commands = [
        ["batch", ".", "-o", "captions.jsonl", "--limit", "2"],
        ["batch", ".", "-o", "captions.jsonl", "--export", "csv"],
        ["caption", "whole.flac", "-q"],
        ["export", "captions.jsonl", "--to", "textgrid,srt"],
        ["compare", "whole.flac", "-o", "compared.jsonl", "-q"],
    ]
    out, err = without_posix(tmp_path, *commands)
    assert out.count("ended with 0") == len(commands), err
    captioned = [json.loads(line) for line in (tmp_path / "captions.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {Path(each["file"]).name for each in captioned} == {"whole.flac", "float.wav", "sound.m4a"}
    assert all(each["caption"] for each in captioned)
    assert len(list((tmp_path / "captions-export").iterdir())) >= 7
