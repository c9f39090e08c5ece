"""The last offset of each key, in memory that is fixed beforehand however many keys there are.

A table of slots of 24 bytes with open addressing, as Kafka's SkimpyOffsetMap: the key's MD5 in
place of the key, then its offset. Two keys of one hash would count as one; at 128 bits that does
not happen by chance.
"""

from hashlib import md5
from mmap import mmap
from struct import Struct
from typing import Final

_HASH: Final = Struct("<QQ")
_WORDS: Final = 3  # both halves of the hash, and the offset plus one: 0 is an empty slot
_SLOT_BYTES: Final = 8 * _WORDS

ABSENT: Final = -1


class OffsetMap:
    """A map of up to `capacity` keys; a known key can always be put again."""

    def __init__(
        self, memory_bytes: int, load_factor: float = 0.9, most_keys: int | None = None
    ) -> None:
        """`load_factor` is how much of the memory may be in use: searches grow long beyond 0.9.

        It allocates less memory if there cannot be more than `most_keys`.
        """
        slots = memory_bytes // _SLOT_BYTES
        if most_keys is not None:
            slots = min(slots, int(2 * most_keys / max(load_factor, 0.1)) + 2)
        # The number of slots is prime, so that every step from slot to slot comes to all of them.
        self._slots = _greatest_prime(slots)
        # One slot stays empty at least: there every search for an absent key ends.
        self.capacity = max(1, min(int(self._slots * load_factor), self._slots - 1))
        # Zero pages: the system allocates each at its first write, and frees all at the end.
        self._table = memoryview(mmap(-1, self._slots * _SLOT_BYTES)).cast("Q")
        self._keys = 0

    def __len__(self) -> int:
        return self._keys

    @property
    def utilization(self) -> float:
        return self._keys / self.capacity

    def put(self, key: bytes, offset: int) -> bool:
        """Note the latest offset of `key`; False, nothing changed, if there is no room for it."""
        first, second = _HASH.unpack(md5(key, usedforsecurity=False).digest())
        table = self._table
        at = self._find(first, second)
        if not table[at + 2]:
            if self._keys >= self.capacity:
                return False
            self._keys += 1
            table[at], table[at + 1] = first, second
        table[at + 2] = offset + 1
        return True

    def get(self, key: bytes) -> int:
        """The offset that was put last for `key`, or ABSENT."""
        first, second = _HASH.unpack(md5(key, usedforsecurity=False).digest())
        return self._table[self._find(first, second) + 2] - 1

    def _find(self, first: int, second: int) -> int:
        """Where the slot of a hash begins, or the empty slot where it belongs."""
        table = self._table
        at = first % self._slots * _WORDS
        if not table[at + 2] or (table[at] == first and table[at + 1] == second):
            return at
        step = (1 + second % (self._slots - 1)) * _WORDS
        size = self._slots * _WORDS
        while True:
            at = (at + step) % size
            if not table[at + 2] or (table[at] == first and table[at + 1] == second):
                return at


def _greatest_prime(limit: int) -> int:
    """The greatest prime number up to `limit`, or 2."""
    while any(limit % divisor == 0 for divisor in range(2, int(limit**0.5) + 1)):
        limit -= 1
    return max(limit, 2)
