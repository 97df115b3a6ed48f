"""What each mode spends of the three costs, and the oracle's spending, from what transcripts recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from specdec_cli.compare.costs import Columns
from specdec_cli.metrics.bootstrap import Values
from specdec_cli.metrics.frontier import Oracle, Spending, oracle
from specdec_cli.types import Cost, Mode

_VERIFYING: Final[tuple[Mode, ...]] = ("hybrid", "lossless")


def spendings(mode: Mode, table: Mapping[Mode, Columns]) -> dict[Cost, Spending]:
    """What a mode between the two spent on each clip; its time is that of the cloud's recorded forwards."""
    own = table[mode]
    return {
        "blocks": Spending(own["escalations"], own["rounds"]),
        "clips": Spending(own["woken"], np.ones(len(own["woken"]))),
        "time": Spending(own["cloud_ms"], table["cloud"]["cloud_ms"]),
    }


def oracle_of(edge: Values, cloud: Values, table: Mapping[Mode, Columns]) -> Oracle:
    """The oracle of the compared clips, whose classes `edge` and `cloud` name right or wrong [clips, attributes].

    Its blocks are of the size that the edge drafts; a clip costs what cloud-only took for encoder and prefill, and for
    each class after the first one verification, of the mean length of those that were run.
    """
    alone = table["cloud"]
    return oracle(
        edge,
        cloud,
        table["edge"]["rounds"],
        alone["prefill_cloud_ms"],
        _verification_ms(table),
        alone["cloud_ms"],
    )


def _verification_ms(table: Mapping[Mode, Columns]) -> float | None:
    """Mean time of the cloud's forwards after its prefill; None where none was measured."""
    ms = forwards = 0.0
    for mode in _VERIFYING:
        if mode in table:
            own = table[mode]
            ms += float(np.nansum(own["cloud_ms"] - own["prefill_cloud_ms"]))
            forwards += float(np.nansum(own["forwards_cloud"] - 1.0, where=own["woken"] > 0))
    return ms / forwards if forwards > 0 and ms > 0 else None
