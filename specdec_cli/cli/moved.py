"""Options that moved: what to use now in the place of each earlier spelling."""

from __future__ import annotations

from typing import Final

MOVED: Final = {
    "--bertscore": "--set judging.bertscore=true",
    "--captions": "-o FILE.html",
    "--defer": "--set decoding.defer=true",
    "--degrade": "--set decoding.degrade=true",
    "--edge-failed": "--set decoding.edge_failed=cloud",
    "--eval-seed": "--set judging.seed=N",
    "--fail-fast": "--set runtime.fail_fast=true",
    "--file-column": "--column file=COLUMN",
    "--force-prompt": "--set prompt.force=true",
    "--gates": "--gate GATE,GATE",
    "--html": "-o FILE.html",
    "--idle-s": "--set serve.idle_s=SECONDS",
    "--in-flight": "--set runtime.in_flight=N",
    "--ks": "-k K,K",
    "--label-codes": "--set judging.label_codes=CORPUS",
    "--label-column": "--column ATTRIBUTE=COLUMN",
    "--list-devices": "--device list",
    "--lookup": "--set runtime.guess_file=FILE",
    "--max-clip-seconds": "--set serve.clip_s=SECONDS",
    "--max-sessions": "--set serve.sessions=N",
    "--memory-mb": "--set serve.memory_mb=N",
    "--modes": "--mode MODE,MODE",
    "--no-defer": "--set decoding.defer=false",
    "--no-degrade": "--set decoding.degrade=false",
    "--picture": "--to FORMAT",
    "--plot": "-o FILE.svg",
    "--ray-address": "the variable RAY_ADDRESS",
    "--recordings": "--traces FILE",
    "--resume": "nothing: that is what happens",
    "--rttm-name": "--attribute NAME",
    "--text-column": "--column text=COLUMN",
    "--tls-cert": "--set serve.tls_cert=FILE",
    "--tls-key": "--set serve.tls_key=FILE",
    "--unknown-label": "--set judging.unknown_label=refuse",
    "--workers": "--set runtime.workers=N",
}
"""Earlier spelling -> what to use now."""
