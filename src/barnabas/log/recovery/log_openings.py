"""The logs of a log directory at a start: their names, and their entries in the checkpoints."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from barnabas.base.ids import TopicPartition
from barnabas.config.topic_config import TopicConfig
from barnabas.log.log_dir import FIRST_DIRTY_OFFSET, LOG_START_OFFSET, RECOVERY_POINT, LogDir
from barnabas.log.recovery.log_loader import Opening

_PARTITION: Final = re.compile(r"(.+)-(\d+)", re.ASCII)


def openings_in(
    log_dir: LogDir, names: Sequence[str], config_of: Callable[[str], TopicConfig]
) -> Iterator[tuple[LogDir, Opening]]:
    """The partitions among `names`, with each one's entries in the checkpoints."""
    points = log_dir.read_offsets(RECOVERY_POINT)
    starts = log_dir.read_offsets(LOG_START_OFFSET)
    dirty = log_dir.read_offsets(FIRST_DIRTY_OFFSET)
    for match in filter(None, map(_PARTITION.fullmatch, names)):
        partition = TopicPartition(match[1], int(match[2]))
        yield (
            log_dir,
            Opening(
                partition,
                config_of(partition.topic),
                log_dir.was_clean,
                points.get(partition),
                starts.get(partition, 0),
                dirty.get(partition),
            ),
        )
