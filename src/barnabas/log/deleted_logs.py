"""Deleted logs: directories with the suffix `-delete`, until their files are removed.

A log that belongs to no topic of now gets the suffix `-stray`, as in Kafka, and is kept.
"""

from typing import Final

from barnabas.base.ids import TopicPartition
from barnabas.base.randomness import Random
from barnabas.disk.disk import Disk
from barnabas.log.background_work import Removal

DELETE: Final = "-delete"
STRAY: Final = "-stray"
_MAX_NAME: Final = 255


def rename_to_delete(
    disk: Disk, partition: TopicPartition, random: Random, delay_ms: int, directory: str = ""
) -> Removal:
    """Rename the directory of a log; the returned work removes it. Raises DiskFault.

    `directory` is that of a future log; by default it has the name of the partition.
    """
    name = _name(partition, random, DELETE)
    disk.rename(directory or str(partition), name)
    return Removal(disk, [name], delay_ms)


def stray_name(partition: TopicPartition, random: Random) -> str:
    """A name for the directory of a log that is set aside."""
    return _name(partition, random, STRAY)


def _name(partition: TopicPartition, random: Random, what: str) -> str:
    suffix = f"-{partition.partition}.{random.uuid().hex}{what}"
    return partition.topic[: _MAX_NAME - len(suffix)] + suffix
