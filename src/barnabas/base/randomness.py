"""Randomness: the simulation seeds it, production does not."""

import random
import uuid


class Random:
    """Random ids and jitter; the same seed gives the same sequence."""

    def __init__(self, seed: int | None = None) -> None:
        self._source: random.Random = random.SystemRandom() if seed is None else random.Random(seed)

    def uuid(self) -> uuid.UUID:
        """A version 4 UUID whose Kafka text form does not begin with a dash, as Kafka's do not."""
        while True:
            made = uuid.UUID(int=self._source.getrandbits(128), version=4)
            # base64url of the first 6 bits 0b111110 is "-", which tools parse as an option.
            if made.bytes[0] >> 2 != 0b111110:
                return made

    def below(self, bound: int) -> int:
        """An integer in [0, bound), or 0 when bound is not positive."""
        return self._source.randrange(bound) if bound > 0 else 0
