"""Traces of lookup-table models: exact, and made in milliseconds."""

from functools import cache

import torch

from specdec_cli.decoding.pair import Pair
from specdec_cli.decoding.rows import Groups
from specdec_cli.tune.recording import Trace, record_tracks
from tests.table import TableModel, random_table, table_prompt
from tests.tiny import settings

LENGTH = 24
GROUPS = Groups.of({3: 0, 4: 0, 5: 1, 6: 1, 7: 2, 8: 3}, 14)


def table_pair(seed: int) -> tuple[TableModel, TableModel]:
    """An edge and a cloud that agree on most tokens."""
    cloud = random_table(seed, size=14, spread=1.5)
    noise = torch.randn(cloud.table.shape, generator=torch.Generator().manual_seed(seed))
    return TableModel(cloud.table + 0.9 * noise, "edge"), cloud


@cache
def trace_of(seed: int) -> Trace:
    """The trace of `table_pair(seed)`, with its number for a hash."""
    edge, cloud = table_pair(seed)
    config = settings(mode="lossless", max_new_tokens=LENGTH, loop_period=0)
    tracks = record_tracks(Pair.of(edge, cloud), config, table_prompt(edge), lambda: table_prompt(cloud), GROUPS)
    return Trace(
        file=f"{seed}.wav", sha256=f"{seed:064x}", duration_s=1.0,
        setup={"prompt": "p", "language": "en", "models": {}}, edge=tracks[0], cloud=tracks[1],
        cloud_caption=edge.processor.text(tracks[1].ids),
    )  # fmt: skip
