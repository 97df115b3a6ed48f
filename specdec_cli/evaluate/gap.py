"""Gap closed: how much of what the cloud is better by than the edge a hybrid gains."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
from pydantic import Field

from specdec_cli.evaluate.bootstrap import Figures, Interval, Resampler, Statistic, Values, difference, mean, quotient

_ROUNDING: Final = 1e-9  # differences of shares below this are none


class GapClosed(Figures):
    """Quality of edge-only, of a mode between the two, and of cloud-only, paired by clip."""

    clips: int = Field(description="clips that could be measured")
    edge: float = Field(description="of edge-only, 0 to 1")
    value: float = Field(description="of this mode, 0 to 1")
    cloud: float = Field(description="of cloud-only, 0 to 1; with basis cloud it is 1")
    gap: Interval = Field(description="cloud - edge, paired by clip")
    gain: Interval = Field(description="value - edge, paired by clip")
    closed: Interval | None = Field(description="gain / gap; null: the interval of the gap holds 0, or it is below")


def measure_gap(
    edge: npt.ArrayLike, hybrid: npt.ArrayLike, cloud: npt.ArrayLike, resampler: Resampler
) -> GapClosed | None:
    """The gap between edge and cloud, and how much of it the hybrid closes: (hybrid - edge) / (cloud - edge).

    Quality is the mean over attributes of the share of clips with that attribute right. `closed` is 0 where the hybrid
    is no better than the edge, 1 where it is as good as the cloud, and above 1 where it is better. A ratio has no
    useful interval where its denominator may be 0: it is given only where the interval of the gap lies above 0, and
    the few resamples without a gap are left out of it.

    Args:
        edge, hybrid, cloud: 1 or 0 (or any score, higher is better) for every clip and attribute, [clips] or
            [clips, attributes]; NaN where the clip's reference names no class. What one of the three does not know
            counts for none.
        resampler: of these clips.

    Returns:
        The figures; None where no clip is known.
    """
    tables = known_alike(edge, hybrid, cloud)
    known = np.isfinite(tables[0])
    if not known.any():
        return None
    of_edge, of_hybrid, of_cloud = map(mean, tables)
    gap, gain = difference(of_cloud, of_edge), difference(of_hybrid, of_edge)
    width = _existing(resampler.interval(gap))
    measurable = width.low is not None and width.low > _ROUNDING
    return GapClosed(
        clips=int(known.reshape(len(known), -1).any(axis=1).sum()),
        edge=float(of_edge(np.ones(resampler.clips))),
        value=float(of_hybrid(np.ones(resampler.clips))),
        cloud=float(of_cloud(np.ones(resampler.clips))),
        gap=width,
        gain=_existing(resampler.interval(gain)),
        closed=resampler.interval(share_of_gap(gain, gap)) if measurable else None,
    )


def known_alike(*tables: npt.ArrayLike) -> list[Values]:
    """The tables, of one shape, with NaN wherever one of them has it."""
    found = [np.asarray(values, dtype=np.float64) for values in tables]
    known = np.asarray(np.isfinite(found).all(axis=0))
    return [np.where(known, table, np.nan) for table in found]


def share_of_gap(gain: Statistic, gap: Statistic) -> Statistic:
    """A gain over the edge in units of the gap; NaN for resamples without a gap: there is no share of what is not."""

    def existing(counts: Values) -> Values:
        values = gap(counts)
        return np.where(values > _ROUNDING, values, 0.0)

    return quotient(gain, existing)


def _existing(interval: Interval | None) -> Interval:
    assert interval is not None  # at least one clip is known, and in all three
    return interval
