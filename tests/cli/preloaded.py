"""What every `harness.Fork` has from its start: the mini pair, and what commands import when they are used.

Imported once, by the process that is forked, which has no other thread: a lock that one held would be held for ever.
"""

import gc
import os
from importlib import import_module
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}

from tests.cli import commands  # noqa: F401
from tests.mini_pair import mini_pair

mini_pair()
for name in (
    *("cli.app", "cli.batch", "cli.caption", "cli.compare", "cli.set_up", "console.view"),
    *("evaluate.comparison", "evaluate.running"),
):
    import_module(f"specdec_cli.{name}")
THREADS = len(os.listdir("/proc/self/task")) if Path("/proc/self/task").exists() else 1
gc.freeze()
