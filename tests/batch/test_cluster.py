"""A batch on Ray: the same lines, also when actors die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.cli.conftest import Specdec, specdec  # noqa: F401 - the second is a fixture
from tests.cli.harness import COMMAND, environment
from tests.mini_pair import captioner, write_voice
from tests.transcript.lines import read_transcripts

pytest.importorskip("ray", reason="needs Ray: pip install 'specdec-cli[ray]'")
pytestmark = [
    pytest.mark.full,
    pytest.mark.xdist_group("ray"),  # one cluster for all of them
    pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX"),
    pytest.mark.filterwarnings("ignore"),  # of Ray's own making, where a test starts a cluster in this process
]

QUICK = ("--mode", "edge", "--max-new-tokens", "6")
EAGER = {"RAY_worker_niceness": "0"}
"""Ray makes its workers give way to everything else; beside other work on the machine they would hardly get on."""


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clips")
    for index in range(80):
        write_voice(folder / f"{index:02d}.wav", index, 0.3)
    (folder / "broken.wav").write_bytes(b"RIFF")
    return folder


def run(clips: Path, output: Path, address: str, *more: str) -> subprocess.Popen[str]:
    command = [*COMMAND, "batch", clips.name, "-o", str(output), *QUICK, "--ray-address", address, *more]
    # Relative paths, so that actors must know the folder.
    return subprocess.Popen(command, cwd=clips.parent, env=environment(**EAGER), stderr=subprocess.PIPE, text=True)


def finish(started: subprocess.Popen[str]) -> tuple[int, str]:
    _, err = started.communicate(timeout=600)
    return started.returncode, err


def require_complete(output: Path, clips: Path) -> None:
    lines = {Path(line.file).name: line for line in read_transcripts(output)}
    assert len(list(read_transcripts(output))) == len(lines) == 81
    error = lines.pop("broken.wav").error
    assert error is not None
    assert error.type == "AudioDecodeError"
    alone = captioner(decoding__mode="edge", decoding__max_new_tokens=6)
    for name, line in lines.items():
        assert line.file == f"{clips.name}/{name}"
        assert line.caption == alone.caption(clips / name).caption


def test_a_cluster_resumes_and_actors_that_are_all_killed_cost_nothing(
    clips: Path, tmp_path: Path, two_nodes: str
) -> None:
    """What it writes is what one process writes."""
    output = tmp_path / "out.jsonl"
    code, err = finish(run(clips, output, two_nodes, "--limit", "10"))
    assert code == 0, err
    assert len(list(read_transcripts(output))) == 10
    before = output.stat().st_size
    started = run(clips, output, two_nodes)
    while started.poll() is None and output.stat().st_size == before:
        time.sleep(0.01)
    actors = _actors()
    for actor in actors:  # the first chunk is written, and the second is on its way
        os.kill(actor.pid, signal.SIGKILL)
    code, err = finish(started)
    assert actors
    assert code == 1, err
    assert "10 done before" in err
    require_complete(output, clips)


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[str]:
    """The address of a cluster of two nodes, both on this machine."""
    from ray.cluster_utils import Cluster

    monkeypatch = pytest.MonkeyPatch()
    for name, value in environment(**EAGER).items():  # the nodes take this code, as the command does
        monkeypatch.setenv(name, value)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    cluster.add_node(num_cpus=2)
    yield cluster.address
    cluster.shutdown()
    monkeypatch.undo()


def told(output: Path) -> list[tuple[object, ...]]:
    """What of the lines must not depend on where they were made."""
    return sorted(
        (
            Path(line.file).name,
            line.caption,
            line.error.type if line.error else None,
            None if line.labels is None else sorted(line.labels.items()),
            [(round_.draft_ids, round_.committed_ids) for round_ in line.rounds],
        )
        for line in read_transcripts(output)
    )


def entropies(output: Path) -> list[float]:
    """Of all drafted tokens, in the order of the files' names; kernels of other group sizes round differently."""
    lines = sorted(read_transcripts(output), key=lambda line: Path(line.file).name)
    return [nats for line in lines for round_ in line.rounds for nats in round_.entropy]


def test_of_two_nodes_one_loses_its_actor_and_the_lines_are_those_of_an_uninterrupted_run(
    clips: Path,
    tmp_path: Path,
    two_nodes: str,
    specdec: Specdec,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The hybrid pair with labels; the actor that dies is in the middle of a chunk."""
    hybrid = ("--labels", "--max-new-tokens", "12", "--threshold", "0.5", "-l", "zh")
    whole, output = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    monkeypatch.chdir(clips.parent)
    assert specdec("batch", clips.name, "-o", whole, *hybrid).code == 1
    started = subprocess.Popen(
        [*COMMAND, "batch", clips.name, "-o", str(output), *hybrid, "--ray-address", two_nodes],
        cwd=clips.parent,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    while started.poll() is None and not (output.exists() and output.stat().st_size):
        time.sleep(0.01)
    actors = _actors()
    assert len(actors) == 2
    nodes = {actor.ppid() for actor in actors}
    assert len(nodes) == 2
    os.kill(max(actors, key=lambda actor: actor.cpu_times().user).pid, signal.SIGKILL)
    code, err = finish(started)
    assert code == 1, err
    assert told(output) == told(whole)
    assert entropies(output) == pytest.approx(entropies(whole), abs=2e-3)
    assert all(line.labels for line in read_transcripts(output) if line.caption)


def _actors() -> list[psutil.Process]:
    return [child for child in psutil.Process().children(recursive=True) if _title(child).startswith(b"ray::Worker")]


def _title(child: psutil.Process) -> bytes:
    try:
        return Path(f"/proc/{child.pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_without_an_address_ray_is_started_for_the_length_of_the_run(clips: Path, tmp_path: Path) -> None:
    command = [*COMMAND, "batch", clips.name, "-o", str(tmp_path / "out.jsonl"), *QUICK, "--ray"]
    # A folder of its own, or Ray finds the cluster of the tests above. Not tmp_path: sockets in it have short names.
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as folder:
        variables = environment(**EAGER, RAY_TMPDIR=folder)
        variables.pop("RAY_ADDRESS", None)
        done = subprocess.run(command, cwd=clips.parent, env=variables, capture_output=True, text=True, timeout=600)
    assert done.returncode == 1, done.stderr
    require_complete(tmp_path / "out.jsonl", clips)
    assert not _actors()


def test_an_address_where_no_cluster_is_is_refused(clips: Path, tmp_path: Path) -> None:
    code, err = finish(run(clips, tmp_path / "out.jsonl", "127.0.0.1:1"))
    assert code == 2
    assert "127.0.0.1:1" in err
    assert "Traceback" not in err
