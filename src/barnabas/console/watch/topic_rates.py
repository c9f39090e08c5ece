"""Messages a second of topics, from two looks at their log end offsets."""

import asyncio
from collections.abc import Mapping
from typing import Final

from barnabas.base.ids import TopicPartition

_SHORTEST_S: Final = 1.0
_LONGEST_S: Final = 60.0
_MOST: Final = 100_000  # partitions; beyond it those are forgotten that nobody looks at


class TopicRates:
    """The last look at each partition; a rate needs two, of which the first is not too old."""

    def __init__(self) -> None:
        self._seen: dict[TopicPartition, tuple[float, int]] = {}
        self._rates: dict[str, tuple[float, float]] = {}

    def observe(self, ends: Mapping[TopicPartition, int]) -> Mapping[str, float]:
        """The rates of topics after a look at these log end offsets."""
        now = asyncio.get_running_loop().time()
        fresh: dict[str, float] = {}
        for at, end in ends.items():
            seen_s, before = self._seen.get(at, (now - 2 * _LONGEST_S, end))
            if now - seen_s < _SHORTEST_S:
                continue
            self._seen[at] = now, end
            if now - seen_s <= _LONGEST_S:
                fresh[at.topic] = fresh.get(at.topic, 0.0) + max(0, end - before) / (now - seen_s)
        self._rates |= {topic: (now, rate) for topic, rate in fresh.items()}
        if len(self._seen) > _MOST:
            self._seen = {at: seen for at, seen in self._seen.items() if now - seen[0] < _LONGEST_S}
        known = {name: at for name, at in self._rates.items() if now - at[0] < _LONGEST_S}
        self._rates = known
        return {name: rate for name, (_, rate) in known.items()}
