"""Whether logs still have what was taken from them before: leader epochs tell, however they grew.

A log that an unclean election has cut gets records of a new epoch where others were. How long it is
says nothing then; but of the epoch that was read last it has less than was read.
"""

from collections.abc import Mapping
from typing import NamedTuple

from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.archive.archive_manifest import Partition
from barnabas.spark.source.source_options import SourceOptions, TopicPartition
from barnabas.spark.spark_cluster import SparkCluster
from barnabas.spark.user_errors import SparkFailure


class Taken(NamedTuple):
    """All before `end` was taken, when the log's epoch was this; -1 if that is not known."""

    end: int
    leader_epoch: int


def refuse_truncated(
    options: Mapping[str, str], taken: Mapping[Partition, Taken], done: str
) -> None:
    """`options` are the data source's; `done` says what was done with what was taken.

    Raises  CommandFailed if a log has not any more what was taken from it, or cannot be asked
    """
    known = {each: at for each, at in taken.items() if at.leader_epoch >= 0}
    if not known:
        return
    for partition, left in _left(options, known).items():
        end = known[partition].end
        if 0 <= left < end:
            raise CommandFailed(
                f"{partition} was truncated at offset {left} since it was {done} up to {end}:"
                f" what was {done} from there on is not in it any more"
            )


def _left(options: Mapping[str, str], taken: Mapping[Partition, Taken]) -> dict[Partition, int]:
    """Before which offset each log still is what it was; -1 if it has nothing as old."""
    names = ",".join(dict.fromkeys(each.topic for each in taken))
    epochs = {TopicPartition(*each): at.leader_epoch for each, at in taken.items()}
    try:
        with SparkCluster(
            SourceOptions.of({**options, "subscribe": names}, streaming=False)
        ) as cluster:
            ends = cluster.epoch_ends(epochs)
    except SparkFailure as failure:
        raise CommandFailed(str(failure)) from None
    return {Partition(*each): end.offset for each, end in ends.items()}
