"""The bytes that members of all groups of a broker take together, and their limit.

The sum is not kept: groups come and go with their shards, and members in many ways. Every growth is
added to an upper bound, and the groups are counted only where that reaches the limit.
"""

from typing import Final, Protocol
from weakref import WeakSet

DEFAULT_LIMIT: Final = 256 * 1024 * 1024
# At the limit the groups, which may be many, are counted once in this time at most.
COUNT_AGAIN_MS: Final = 1_000


class HoldsGroups(Protocol):
    """A shard of the group coordinator."""

    def held_bytes(self) -> int:
        """The bytes that the members of its groups take."""


class GroupBytes:
    """Shared by all shards of a broker; a shard counts for as long as it is referred to."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._shards: WeakSet[HoldsGroups] = WeakSet()
        self._at_most = 0
        self._counted_at_ms = -float("inf")

    def add(self, shard: HoldsGroups) -> None:
        """Count this shard from now on."""
        self._shards.add(shard)

    def on_loaded(self, shard: HoldsGroups) -> None:
        """The shard holds the groups of its log, which no `grow` has announced."""
        self._at_most += shard.held_bytes()

    def grow(self, size: int, now_ms: float) -> bool:
        """Return True if members may take `size` bytes more; from then on they are counted."""
        if size <= 0:
            return True
        if self._at_most + size > self._limit and now_ms - self._counted_at_ms >= COUNT_AGAIN_MS:
            self._counted_at_ms = now_ms
            self._at_most = sum(shard.held_bytes() for shard in self._shards)
        if self._at_most + size > self._limit:
            return False
        self._at_most += size
        return True
