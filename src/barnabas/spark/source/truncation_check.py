"""The truncation check: detects by leader epochs that a log lost records that were read before.

After an unclean election a truncated log grows again with records of a new leader epoch. Its length
shows nothing then. But the log has fewer records of the epoch that was read last than were read.
"""

from collections.abc import Mapping
from typing import NamedTuple

from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.source.source_options import SourceOptions, TopicPartition
from barnabas.spark.spark_cluster import SparkCluster
from barnabas.spark.user_errors import SparkFailure


class ReadUpTo(NamedTuple):
    """All records before `end` were read, in this leader epoch; -1 if the epoch is unknown."""

    end: int
    leader_epoch: int


def check_not_truncated(
    options: Mapping[str, str], read: Mapping[TopicPartition, ReadUpTo], done: str
) -> None:
    """`options` are those of the data source; `done` is "archived" or "copied", for the message.

    Raises  CommandFailed if a log was truncated below what was read, or no broker answers
    """
    known = {each: at for each, at in read.items() if at.leader_epoch >= 0}
    if not known:
        return
    for partition, left in _unchanged_up_to(options, known).items():
        end = known[partition].end
        if 0 <= left < end:
            raise CommandFailed(
                f"{partition} was {done} up to offset {end} and was truncated to {left} since: it"
                f" no longer has the {done} records from {left} on"
            )


def _unchanged_up_to(
    options: Mapping[str, str], read: Mapping[TopicPartition, ReadUpTo]
) -> dict[TopicPartition, int]:
    """The offset before which each log is unchanged; -1 if it has no epoch as old."""
    names = ",".join(dict.fromkeys(each.topic for each in read))
    epochs = {each: at.leader_epoch for each, at in read.items()}
    try:
        with SparkCluster(
            SourceOptions.of({**options, "subscribe": names}, streaming=False)
        ) as cluster:
            ends = cluster.epoch_ends(epochs)
    except SparkFailure as failure:
        raise CommandFailed(str(failure)) from None
    return {each: end.offset for each, end in ends.items()}
