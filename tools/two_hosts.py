"""Modes over a link between two hosts: network namespaces with a veth pair, and a relay that is slow (root, Linux).

    python -m tools.two_hosts --rtt 0,20,50,200 samples/*.flac

The server runs in one namespace, the edge in the other; between them the relay of `tools.relay` waits as a
link of that round trip would. Prints the total time of each mode, from one `specdec compare` per round trip.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
EDGE, CLOUD = "specdec-edge", "specdec-cloud"
EDGE_ADDRESS, CLOUD_ADDRESS = "10.77.0.1", "10.77.0.2"
PORT = 8766
PYTHON = (sys.executable, "-m")


@contextmanager
def two_hosts() -> Iterator[None]:
    """Two namespaces that reach each other and nothing else."""
    setup = f"""
        netns add {EDGE}; netns add {CLOUD}
        link add sdedge netns {EDGE} type veth peer name sdcloud netns {CLOUD}
        -n {EDGE} addr add {EDGE_ADDRESS}/24 dev sdedge; -n {CLOUD} addr add {CLOUD_ADDRESS}/24 dev sdcloud
        -n {EDGE} link set sdedge up; -n {CLOUD} link set sdcloud up
        -n {EDGE} link set lo up; -n {CLOUD} link set lo up
    """
    try:
        for line in filter(None, (part.strip() for part in setup.replace("\n", ";").split(";"))):
            subprocess.run(["ip", *line.split()], check=True)
        yield
    finally:
        for name in (EDGE, CLOUD):
            subprocess.run(["ip", "netns", "del", name], check=False)


@contextmanager
def running(host: str, *command: str, ready: str) -> Iterator[None]:
    """A command on a host, from when it says that it is ready."""
    inside = ["ip", "netns", "exec", host, *command]
    process = subprocess.Popen(inside, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment())
    assert process.stderr is not None
    for line in process.stderr:
        if ready in line:
            break
    else:
        raise SystemExit(f"{' '.join(command)} ended")
    drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()
        drain.wait()


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


def compare(files: list[str], modes: str, more: list[str]) -> dict[str, Any]:
    """What `specdec compare` on the edge's host says."""
    url = f"http://{CLOUD_ADDRESS}:{PORT}"
    link = ("--set", f"cloud.url={url}", "--set", "cloud.allow_plain_http=true", "--set", "cloud.timeout_s=60")
    command = [*PYTHON, "specdec_cli", "compare", *files, "--modes", modes, "--json", "--quiet", *link, *more]
    inside = ["ip", "netns", "exec", EDGE, *command]
    done = subprocess.run(inside, capture_output=True, text=True, cwd=ROOT, env=environment())
    if done.returncode:
        raise SystemExit(done.stderr)
    return dict(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--rtt", default="0,20,50,200", help="round trips, ms")
    parser.add_argument("--modes", default="edge,hybrid,lossless,cloud")
    parser.add_argument("--set", action="append", default=[], help="settings for specdec compare")
    given = parser.parse_args()
    more = [word for setting in given.set for word in ("--set", setting)]
    print("rtt ms  mode      total s  to edge  on the link s  calls  uplink B  degraded")
    with two_hosts(), running(CLOUD, *PYTHON, "specdec_cli", "serve", ready='"ready"'):
        for rtt in given.rtt.split(","):
            relay = (*PYTHON, "tools.relay", f"{CLOUD_ADDRESS}:{PORT}", "127.0.0.1:8765", "--rtt-ms", rtt)
            with running(CLOUD, *relay, ready="->"):
                time.sleep(0.2)
                for mode in compare(given.files, given.modes, more)["costs"]:
                    ratio = (mode["total_s"]["to_edge"] or {}).get("value")
                    print(
                        f"{rtt:>6}  {mode['mode']:<8}  {mode['total_s']['value']:>7.2f}  "
                        f"{'' if ratio is None else f'{ratio:.2f}':>7}  {mode['network_s'] or 0:>13.2f}  "
                        f"{mode['cloud_calls'] or 0:>5}  {mode['uplink_bytes']:>8}  {mode['degraded']:>8}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
