"""One view over a table and its topic: the table up to what it covers, the topic from there on.

A read is a range of offsets in each partition. Offsets that the table covers are read from its
files, later ones from the brokers. Both ends come from one snapshot of the table, so there is no
gap and no overlap, and a range has the same rows wherever they are read from.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.spark.source.offset_ranges import OffsetRange, divide
from barnabas.spark.source.read_plan import find_topics, partitions_of, resolve
from barnabas.spark.source.source_options import EARLIEST, LATEST, Bound, SourceOptions
from barnabas.spark.spark_cluster import SparkCluster
from barnabas.spark.table_log.table_directory import TableDirectory
from barnabas.spark.table_log.table_file import Bounds, TableFile, plain
from barnabas.spark.table_log.table_log import TableLog, TableSnapshot, load_table
from barnabas.spark.user_errors import SparkFailure, WrongOption, without_traceback

Offsets = dict[int, int]
_COMMITTED: Final = {"kafka.isolation.level": "read_committed"}


@dataclass(frozen=True)
class FileTask(InputPartition):
    """The rows of a file of the table at `place` whose offsets are in their partition's range."""

    place: str
    path: str
    partition_values: Mapping[str, str | None]
    ranges: Mapping[int, tuple[int, int]]


@dataclass(frozen=True)
class ViewedTable:
    """A table at one snapshot, and the options with which its topic is read."""

    snapshot: TableSnapshot
    files: Sequence[TableFile]
    uri: str
    options: SourceOptions


def table_option(options: Mapping[str, str]) -> str | None:
    return next((value for name, value in options.items() if name.lower() == "table"), None)


def load_snapshot(path: str) -> tuple[TableDirectory, TableLog, TableSnapshot]:
    """The newest snapshot of the table at `path`. Raises WrongOption if there is none."""
    try:
        directory = TableDirectory(path)
        log, snapshot = load_table(directory)
    except (CommandFailed, Misused) as failure:
        raise WrongOption(f"option table: {failure}") from None
    if snapshot.state.definition.upsert:
        raise WrongOption(
            "option table: a table of the latest of each key has no view with its topic; read the"
            " table by itself"
        )
    return directory, log, snapshot


def live_options(
    options: Mapping[str, str], snapshot: TableSnapshot, *, streaming: bool
) -> SourceOptions:
    """The options that read the rest of the topic as the table's writer does."""
    definition = snapshot.state.definition
    kept = {name: value for name, value in options.items() if name.lower() not in _OWN}
    decoding = {"value.errors": "keep", **definition.values} if definition.is_decoded else {}
    return SourceOptions.of(
        {**_COMMITTED, **kept, **decoding, "subscribe": definition.topic, "includeHeaders": "true"},
        streaming=streaming,
    )


_OWN: Final = ("table", "path", "subscribe", "includeheaders")


def view(options: Mapping[str, str], *, streaming: bool) -> ViewedTable:
    """Raises  WrongOption"""
    path = table_option(options)
    assert path is not None
    directory, log, snapshot = load_snapshot(path)
    read = live_options(options, snapshot, streaming=streaming)
    return ViewedTable(snapshot, log.files(snapshot.version), directory.uri, read)


def starts(viewed: ViewedTable) -> Offsets:
    return {number: each.start for number, each in viewed.snapshot.state.partitions.items()}


def ends(viewed: ViewedTable) -> Offsets:
    """The current ends of the topic's partitions. Raises SparkFailure if it is another topic."""
    options = viewed.options
    with SparkCluster(options) as cluster:
        topics = find_topics(cluster, options)
        _check_topic(viewed, topics[viewed.snapshot.state.definition.topic].topic_id.bytes)
        chosen = partitions_of(topics, options)
        found = resolve(cluster, Bound("endingOffsets", LATEST), chosen, options)
    return {each.partition: at.offset for each, at in found.items()}


def _check_topic(viewed: ViewedTable, found: bytes) -> None:
    known = viewed.snapshot.state.topic_id
    text = base64.urlsafe_b64encode(found).decode().rstrip("=")
    if known and any(found) and text != known:
        topic = viewed.snapshot.state.definition.topic
        raise SparkFailure(
            f"topic {topic} was deleted and recreated since the table was written (its id was"
            f" {known}, now {text}); read the table by itself"
        )


def tasks(
    viewed: ViewedTable, start: Offsets, end: Offsets, filters: Iterable[Filter] = ()
) -> list[InputPartition]:
    """The tasks that read the offsets [start, end): files first, then ranges of the topic."""
    covered = viewed.snapshot.state.ends
    in_table = {
        number: (start.get(number, 0), min(until, covered.get(number, 0)))
        for number, until in end.items()
        if start.get(number, 0) < min(until, covered.get(number, 0))
    }
    wanted = list(filters)
    found: list[InputPartition] = [
        FileTask(viewed.uri, file.path, dict(file.partition_values), in_table)
        for file in viewed.files
        if in_table and _has_offsets(file, in_table) and may_match(file, wanted)
    ]
    live = {
        number: (max(start.get(number, 0), covered.get(number, 0)), until)
        for number, until in end.items()
    }
    return [*found, *_live_tasks(viewed, live)]


def _live_tasks(
    viewed: ViewedTable, ranges: Mapping[int, tuple[int, int]]
) -> Sequence[InputPartition]:
    options = viewed.options
    if not any(start < end for start, end in ranges.values()):
        return []
    with SparkCluster(options) as cluster:
        topics = find_topics(cluster, options)
        first = resolve(
            cluster, Bound("earliest", EARLIEST), partitions_of(topics, options), options
        )
    known = viewed.snapshot.state.partitions
    wanted = []
    for each, at in first.items():
        start, end = ranges.get(each.partition, (0, 0))
        # A partition that is newer than the table begins where its log does.
        start = start if each.partition in known else max(start, at.offset)
        topic = topics[each.topic]
        wanted.append(OffsetRange(each, topic.topic_id, start, end, topic.leader(each.partition)))
    return divide(wanted, options.min_partitions, options.max_records_per_partition)


def _has_offsets(file: TableFile, ranges: Mapping[int, tuple[int, int]]) -> bool:
    low, high = file.bounds.get("partition", (None, None))
    first, last = file.bounds.get("offset", (None, None))
    for number, (start, end) in ranges.items():
        in_partition = low is None or low <= number <= high
        if in_partition and (first is None or (first < end and start <= last)):
            return True
    return False


def may_match(file: TableFile, filters: Iterable[Filter]) -> bool:
    """True if the file may have a row that the filters select, by its statistics."""
    return all(_may_match(file, each) for each in filters)


def _may_match(file: TableFile, filter: Filter) -> bool:
    path: tuple[str, ...] = getattr(filter, "attribute", ())
    value = plain(getattr(filter, "value", None))
    bounds = _bounds(file, path[0], value) if len(path) == 1 else None
    if bounds is None or value is None or type(value) is not type(bounds[0]):
        return True
    low, high = bounds
    match filter:
        case EqualTo():
            return bool(low <= value <= high)
        case GreaterThan():
            return bool(high > value)
        case GreaterThanOrEqual():
            return bool(high >= value)
        case LessThan():
            return bool(low < value)
        case LessThanOrEqual():
            return bool(low <= value)
    return True


def _bounds(file: TableFile, column: str, value: object) -> Bounds | None:
    """The least and the greatest value of the column; None if they are unknown."""
    text = file.partition_values.get(column)
    if text is None:
        return file.bounds.get(column)
    if isinstance(value, int):
        return (int(text), int(text)) if text.lstrip("-").isdecimal() else None
    return text, text


@without_traceback
def schema_of(path: str) -> Any:
    """Spark's schema of the table at `path`. Raises WrongOption."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(dict(load_snapshot(path)[2].schema))
