"""The authorized operations in responses: all of them, since nothing is refused."""

from typing import Final


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


# By Kafka's numbers: read 3, write 4, create 5, delete 6, alter 7, describe 8, cluster action 9,
# describe configs 10, alter configs 11, idempotent write 12.
TOPIC: Final = _bits(3, 4, 5, 6, 7, 8, 10, 11)
CLUSTER: Final = _bits(5, 7, 8, 9, 10, 11, 12)
GROUP: Final = _bits(3, 6, 8)
NOT_ASKED: Final = -(2**31)
