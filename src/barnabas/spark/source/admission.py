"""How much one micro-batch takes of what there is: the limits that the options set."""

import math
from collections.abc import Mapping

from barnabas.spark.source.source_options import TopicPartition

Offsets = Mapping[TopicPartition, int]


def limited(start: Offsets, latest: Offsets, most: int) -> dict[TopicPartition, int]:
    """Where a batch of at most about `most` offsets ends.

    Each partition gets a share by how much it has, and one offset at least, so that small ones
    are not starved. This is how Spark's Kafka source divides.
    """
    sizes = {each: max(0, end - start.get(each, end)) for each, end in latest.items()}
    total = sum(sizes.values())
    if total < 1:
        return dict(latest)
    ends = {}
    for each, end in latest.items():
        share = most * sizes[each] / total
        ends[each] = min(end, end - sizes[each] + (math.ceil(share) if share < 1 else int(share)))
    return ends


def available(start: Offsets, latest: Offsets) -> int:
    """How many offsets there are from `start` to `latest`."""
    return sum(max(0, end - start.get(each, end)) for each, end in latest.items())
