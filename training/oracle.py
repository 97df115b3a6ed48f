"""The oracle of docs/benchmarks.md: an upper bound of what any gate closes at a cost.

It sees where the cloud's class is right and the edge's is wrong, escalates one block for each such class, and takes no
other token from the cloud. It reaches the bound within any budget by taking the clips with the largest gain per cost
first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from specdec_cli.stats import Statistic, Values
from specdec_cli.types import Cost


@dataclass(frozen=True, slots=True)
class Oracle:
    """An oracle over n clips.

    Attributes:
        edge, cloud: 1 or 0 for right or wrong [n, attributes], NaN where the reference names no class.
        costs: what correcting all classes of a clip that only the cloud has right takes of each cost [n], and what
            could be spent on it [n].
    """

    edge: Values
    cloud: Values
    costs: Mapping[Cost, tuple[Values, Values]]

    def gain(self, cost: Cost, share: float) -> Statistic:
        """Quality gained over the edge within a share of `cost`; the last clip counts by the part that it fits in.

        NaN where the cost was not measured.
        """
        spent, whole = self.costs[cost]
        known = np.isfinite(self.edge) & np.isfinite(self.cloud)
        gains = np.where(known & (self.cloud > self.edge), self.cloud - self.edge, 0.0)
        worth = (gains / np.maximum(known.sum(axis=0), 1)).sum(axis=1)
        clips = np.flatnonzero(worth > 0)
        order = clips[np.argsort(-worth[clips] / np.maximum(spent[clips], 1e-12), kind="stable")]

        def statistic(counts: Values) -> Values:
            times = counts[..., order]
            costs = times * spent[order] / np.asarray(counts @ whole)[..., None]
            room = share - (costs.cumsum(axis=-1) - costs)
            taken = np.clip(np.divide(room, costs, out=np.zeros_like(costs), where=costs > 0), 0.0, 1.0)
            sums, clips_known = (times * taken) @ gains[order], counts @ known
            return np.asarray((sums / np.where(clips_known > 0, clips_known, np.nan)).mean(axis=-1))

        return statistic


def oracle(edge: Values, cloud: Values, blocks: Values, tokens: Values, prefill: float) -> Oracle:
    """The oracle of n clips.

    Args:
        edge, cloud: see `Oracle`.
        blocks: that the edge alone drafts of each clip [n].
        tokens: that cloud-only writes of each clip [n].
        prefill: forwards of one token that audio encoder and prefill take as long as; NaN: not measured.
    """
    classes = (cloud > edge).sum(axis=1).astype(np.float64)
    woken = (classes > 0).astype(np.float64)
    costs: dict[Cost, tuple[Values, Values]] = {
        "blocks": (np.minimum(classes, blocks), blocks),
        "clips": (woken, np.ones(len(woken))),
        "time": (np.where(classes > 0, prefill + classes - 1, 0.0), prefill + tokens - 1),
    }
    return Oracle(edge, cloud, costs)
