"""The 95 % interval of a median, by the order of the sample alone, and a goal's verdict by it.

No distribution is assumed: the number of values below the true median is that of heads among as
many tosses of a coin.
"""

from collections.abc import Sequence
from enum import Enum
from math import comb
from typing import Final

CONFIDENCE: Final = 0.95

Interval = tuple[float, float]


class Verdict(Enum):
    """A goal as judged by an interval, with its mark."""

    MET = "✓"
    MISSED = "✗"
    UNDECIDED = "≈"


def median_interval(values: Sequence[float]) -> Interval | None:
    """The narrowest range of two values that holds the median; None for fewer than six values."""
    ordered, found, outside = sorted(values), None, 0.0
    for rank in range(len(ordered) // 2):
        outside += 2 * comb(len(ordered), rank) / 2 ** len(ordered)
        if outside > 1 - CONFIDENCE:
            break
        found = ordered[rank], ordered[-1 - rank]
    return found


def judged(interval: Interval, goal: float, less: bool) -> Verdict:
    """The verdict, to two digits: all of the interval reaches the goal, none of it, or a part."""
    reached = [round(end, 2) <= goal if less else round(end, 2) >= goal for end in interval]
    if all(reached):
        return Verdict.MET
    return Verdict.UNDECIDED if any(reached) else Verdict.MISSED
