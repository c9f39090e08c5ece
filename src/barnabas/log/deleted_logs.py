"""Deleted logs: directories with the suffix `-delete`, until their files are removed."""

from typing import Final

from barnabas.base.ids import TopicPartition
from barnabas.base.randomness import Random
from barnabas.disk.disk import Disk
from barnabas.log.background_work import Removal

DELETE: Final = "-delete"
_MAX_NAME: Final = 255


def rename_to_delete(
    disk: Disk, partition: TopicPartition, random: Random, delay_ms: int, directory: str = ""
) -> Removal:
    """Rename the directory of a log; the returned work removes it. Raises DiskFault.

    `directory` is that of a future log; by default it has the name of the partition.
    """
    suffix = f"-{partition.partition}.{random.uuid().hex}{DELETE}"
    name = partition.topic[: _MAX_NAME - len(suffix)] + suffix
    disk.rename(directory or str(partition), name)
    return Removal(disk, [name], delay_ms)
