"""The verdict on a soak: memory, descriptors, threads and latency of each broker, flat or growing.

The growth of a measure is its slope over the steady part of the run times the length of that part.
The slope is the median of the slopes between all pairs of samples (Theil-Sen): a few outliers, such
as a compaction or a pause of the machine, do not move it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Final

FEWEST_SAMPLES: Final = 5
MOST_SAMPLES: Final = 300  # the number of pairs grows with its square


@dataclass(frozen=True, slots=True)
class SoakSample:
    """One broker at one moment, `at_s` seconds after the load started."""

    at_s: float
    broker: int
    memory_bytes: float
    descriptors: float
    threads: float
    p50_s: float
    worst_s: float


@dataclass(frozen=True, slots=True)
class SoakMeasure:
    """A measure, and the growth that counts as flat: a floor, or a share of its level."""

    key: str
    unit: str
    scale: float  # from the sample's unit to the shown one
    floor: float  # in the shown unit
    share: float


MEASURES: Final = (
    SoakMeasure("memory_bytes", "MB", 1e-6, 12.0, 0.15),
    SoakMeasure("descriptors", "descriptors", 1.0, 24.0, 0.15),
    SoakMeasure("threads", "threads", 1.0, 3.0, 0.15),
    SoakMeasure("p50_s", "ms p50", 1e3, 3.0, 0.5),
)


@dataclass(frozen=True, slots=True)
class SoakTrend:
    """The level and growth of one measure of one broker, in the shown unit."""

    broker: int
    measure: SoakMeasure
    level: float
    growth: float
    allowed: float

    @property
    def is_flat(self) -> bool:
        """Only growth counts: a measure may fall."""
        return self.growth <= self.allowed


def decide_trends(samples: Sequence[SoakSample], steady_from_s: float) -> list[SoakTrend]:
    """One trend per broker and measure; none for a broker with too few steady samples."""
    trends = []
    for broker in sorted({each.broker for each in samples}):
        steady = [each for each in samples if each.broker == broker and each.at_s >= steady_from_s]
        if len(steady) >= FEWEST_SAMPLES:
            trends += [_trend(broker, measure, steady) for measure in MEASURES]
    return trends


def _trend(broker: int, measure: SoakMeasure, steady: Sequence[SoakSample]) -> SoakTrend:
    points = [(each.at_s, measure.scale * getattr(each, measure.key)) for each in steady]
    points = [point for point in points if point[1] == point[1]]  # without NaN
    level = median(value for _, value in points) if points else 0.0
    growth = slope(points) * (points[-1][0] - points[0][0]) if points else 0.0
    return SoakTrend(broker, measure, level, growth, max(measure.floor, measure.share * level))


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The median slope between all pairs of points; 0 for fewer than two."""
    some = points[:: 1 + len(points) // MOST_SAMPLES]
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(some, 2) if b[0] > a[0]]
    return median(slopes) if slopes else 0.0
