"""A batch on Ray: the same lines, also when actors die."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from specdec_cli.captioning.cluster import CHUNK
from tests.cli.conftest import Specdec, specdec  # noqa: F401 - the second is a fixture
from tests.cli.harness import COMMAND, environment
from tests.mini_pair import write_voice
from tests.support.transcripts import read_transcripts

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray: pip install 'specdec-cli[ray]'"),
    pytest.mark.xdist_group("ray"),  # one cluster for all of them
    pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX"),
    pytest.mark.filterwarnings("ignore"),  # of Ray's own making, where a test starts a cluster in this process
]

HALF = 3 * CHUNK  # two actors have a chunk each, and one is left: the run goes on when the first is written
CLIPS = 2 * HALF
QUICK = ("--mode", "edge", "--set", "decoding.max_new_tokens=6")
HYBRID = ("--set", "decoding.max_new_tokens=12", "--threshold", "0.5", "-l", "zh")
EAGER = {
    "RAY_worker_niceness": "0",
    "RAY_worker_register_timeout_seconds": "600",
    "RAY_health_check_failure_threshold": "100",
}
"""Ray makes its workers give way to everything else; beside other work on the machine they would hardly get on.

It also gives up workers and nodes that are slow.
"""


@pytest.fixture(scope="module")
def clips(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("clips")
    for index in range(CLIPS):
        write_voice(folder / f"{index:03d}.wav", index, 0.3)
    (folder / "broken.wav").write_bytes(b"RIFF")
    return folder


def run(clips: Path, output: Path, address: str, *more: str) -> subprocess.Popen[str]:
    command = [*COMMAND, "batch", clips.name, "-o", str(output), "--ray", *more]
    variables = environment(**EAGER, RAY_ADDRESS=address)
    # Relative paths, so that actors must know the folder.
    return subprocess.Popen(command, cwd=clips.parent, env=variables, stderr=subprocess.PIPE, text=True)


def finish(started: subprocess.Popen[str]) -> tuple[int, str]:
    _, err = started.communicate(timeout=600)
    return started.returncode, err


def told(output: Path) -> list[tuple[object, ...]]:
    """What of the lines must not depend on where they were made."""
    return sorted(
        (
            line.file,
            line.caption,
            line.error.type if line.error else None,
            None if line.labels is None else sorted(line.labels.items()),
            [(round_.draft_ids, round_.committed_ids) for round_ in line.rounds],
        )
        for line in read_transcripts(output)
    )


def finish_without(killed: int, started: subprocess.Popen[str], output: Path) -> tuple[int, str]:
    """The end of a run, so many of whose two actors are killed once it has written something."""
    before = size(output)
    while started.poll() is None and size(output) == before:
        time.sleep(0.01)
    actors = _actors()  # the first chunk is written, and two are on their way
    assert len({actor.ppid() for actor in actors}) == len(actors) == 2
    for actor in sorted(actors, key=lambda actor: actor.cpu_times().user)[-killed:]:
        os.kill(actor.pid, signal.SIGKILL)
    return finish(started)


def size(output: Path) -> int:
    return output.stat().st_size if output.exists() else 0


def test_actors_that_are_killed_and_a_run_that_is_resumed_cost_nothing(
    clips,
    tmp_path,
    two_nodes,
    specdec,  # noqa: F811
    monkeypatch,
):
    """What a cluster writes is what one process writes: one actor is killed, and both in the run that goes on."""
    whole, output = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    monkeypatch.chdir(clips.parent)
    assert specdec("batch", clips.name, "-o", whole, *HYBRID).code == 1
    started = run(clips, output, two_nodes, *HYBRID, "--limit", str(HALF))
    code, err = finish_without(1, started, output)
    assert (code, len(list(read_transcripts(output)))) == (0, HALF), err
    code, err = finish_without(2, run(clips, output, two_nodes, *HYBRID), output)
    assert (code, f"{HALF} done before" in err) == (1, True), err
    assert told(output) == told(whole)


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


def _actors() -> list[psutil.Process]:
    return [child for child in psutil.Process().children(recursive=True) if _title(child).startswith(b"ray::Worker")]


def _title(child: psutil.Process) -> bytes:
    try:
        return Path(f"/proc/{child.pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_without_an_address_ray_is_started_for_the_length_of_the_run(clips, tmp_path):
    command = [*COMMAND, "batch", clips.name, "-o", str(tmp_path / "out.jsonl"), *QUICK, "--ray"]
    # A folder of its own, or Ray finds the cluster of the tests above. Not tmp_path: sockets in it have short names.
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as folder:
        variables = environment(**EAGER, RAY_TMPDIR=folder)
        variables.pop("RAY_ADDRESS", None)
        done = subprocess.run(command, cwd=clips.parent, env=variables, capture_output=True, text=True, timeout=600)
    assert done.returncode == 1, done.stderr
    assert len(told(tmp_path / "out.jsonl")) == CLIPS + 1
    assert not _actors()


def test_an_address_where_no_cluster_is_is_refused(clips, tmp_path):
    code, err = finish(run(clips, tmp_path / "out.jsonl", "127.0.0.1:1", *QUICK))
    assert code == 2
    assert "127.0.0.1:1" in err
    assert "Traceback" not in err
