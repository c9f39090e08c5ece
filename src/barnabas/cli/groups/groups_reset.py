"""The new offsets of a group, decided from its committed offsets and the logs' offsets.

Scenarios, clamping and files are those of Kafka's `kafka-consumer-groups`.
"""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from enum import Enum
from typing import Final, NamedTuple

from barnabas.base.ids import TopicPartition
from barnabas.cli.exit_codes import CommandFailed, Misused


class Where(Enum):
    """The scenarios, by their options."""

    EARLIEST = "--to-earliest"
    LATEST = "--to-latest"
    CURRENT = "--to-current"
    DATETIME = "--to-datetime"
    DURATION = "--by-duration"
    SHIFT = "--shift-by"
    OFFSET = "--to-offset"
    FILE = "--from-file"


class Scenario(NamedTuple):
    """The target; `value` is its timestamp in ms, distance or offset, if it needs one."""

    where: Where
    value: int = 0


class LogOffsets(NamedTuple):
    """Offsets returned by the leaders; `since` is the first at or after the scenario's time."""

    earliest: Mapping[TopicPartition, int]
    latest: Mapping[TopicPartition, int]
    since: Mapping[TopicPartition, int] = {}


class Change(NamedTuple):
    """The old and new offset of one partition; `note` says why it differs from the request."""

    partition: TopicPartition
    before: int | None
    after: int
    note: str | None = None

    @property
    def difference(self) -> int | None:
        return None if self.before is None else self.after - self.before


_MS_PER_S: Final = 1000
_DURATION: Final = re.compile(
    r"P(?=.)(?:(?P<days>\d{1,9})D)?"
    r"(?:T(?=.)(?:(?P<hours>\d{1,9})H)?(?:(?P<minutes>\d{1,9})M)?"
    r"(?:(?P<seconds>\d{1,9}(?:\.\d{1,9})?)S)?)?",
    re.IGNORECASE,
)
_TOPIC: Final = re.compile(r"(?P<topic>[^\s:]+)(?::(?P<numbers>\d{1,9}(?:,\d{1,9})*))?")
_LONG: Final = re.compile(r"\d{1,18}")
_FIELDS: Final = 3  # topic, partition, offset; with a group in front one more


def parse_duration_ms(text: str, option: str = "--by-duration ") -> int:
    """Milliseconds of an ISO 8601 duration in days and smaller units. Raises Misused."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise Misused(f"{option}{text}: expected a duration such as P7D, PT1H30M or P1DT12H")
    given = {unit: float(amount) for unit, amount in match.groupdict().items() if amount}
    try:
        return round(timedelta(**given).total_seconds() * _MS_PER_S)
    except OverflowError:
        raise Misused(f"{option}{text}: duration is out of range") from None


def parse_topics(texts: Iterable[str]) -> dict[str, list[int]]:
    """The partitions of each topic given as TOPIC or TOPIC:0,1; an empty list means all."""
    chosen: dict[str, list[int]] = {}
    for text in texts:
        match = _TOPIC.fullmatch(text)
        if match is None:
            raise Misused(f"--topic {text}: expected TOPIC or TOPIC:0,1")
        numbers = [int(number) for number in (match["numbers"] or "").split(",") if number]
        before = chosen.get(match["topic"], numbers)
        # A list of partitions does not narrow a topic that was given as a whole.
        all_of_them = not (before and numbers)
        chosen[match["topic"]] = [] if all_of_them else list(dict.fromkeys([*before, *numbers]))
    return chosen


def parse_plan_file(
    text: str, groups: Sequence[str], source: str
) -> dict[str, dict[TopicPartition, int]]:
    """The offsets of each of `groups` in a plan file.

    A line is `group,topic,partition,offset`, or `topic,partition,offset` for a single group.
    Raises  CommandFailed if a line is neither, or a group has no line
    """
    plan: dict[str, dict[TopicPartition, int]] = {}
    for number, line in enumerate(csv.reader(io.StringIO(text)), 1):
        fields = [field.strip() for field in line]
        if not any(fields):
            continue
        if len(fields) == _FIELDS and len(groups) == 1:
            fields = [groups[0], *fields]
        if len(fields) != _FIELDS + 1 or not all(map(_LONG.fullmatch, fields[-2:])):
            expected = "topic,partition,offset" if len(groups) == 1 else ""
            either = " or ".join(filter(None, [expected, "group,topic,partition,offset"]))
            raise CommandFailed(f"{source}, line {number}: expected {either}")
        group, topic, partition, offset = fields
        plan.setdefault(group, {})[TopicPartition(topic, int(partition))] = int(offset)
    for group in groups:
        if group not in plan:
            raise CommandFailed(f"{source} has no offsets for group {group}")
    return plan


def format_plan_file(changes: Mapping[str, Sequence[Change]]) -> str:
    """A file for `parse_plan_file`, with a group column if there are several groups."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for group, each in changes.items():
        prefix = [group] if len(changes) > 1 else []
        writer.writerows([*prefix, *change.partition, change.after] for change in each)
    return text.getvalue()


def decide_changes(
    scenario: Scenario,
    partitions: Iterable[TopicPartition],
    committed: Mapping[TopicPartition, int],
    logs: LogOffsets,
    requested: Mapping[TopicPartition, int] | None = None,
) -> list[Change]:
    """The change of each partition's offset; `requested` are the offsets of a plan file.

    Raises  CommandFailed if a log's offsets are unknown, or there is no offset to shift
    """
    changes = []
    for partition in sorted(partitions):
        if partition not in logs.earliest or partition not in logs.latest:
            raise CommandFailed(
                f"the offsets of {partition} are unknown: its leader does not answer;"
                " see `barnabas topics describe`"
            )
        before = committed.get(partition)
        wanted = (requested or {}).get(partition, scenario.value)
        after, note = _decide(scenario.where, wanted, partition, before, logs)
        changes.append(Change(partition, before, after, note))
    return changes


def _decide(
    where: Where, wanted: int, partition: TopicPartition, before: int | None, logs: LogOffsets
) -> tuple[int, str | None]:
    earliest, latest = logs.earliest[partition], logs.latest[partition]
    match where:
        case Where.EARLIEST:
            return earliest, None
        case Where.LATEST:
            return latest, None
        case Where.CURRENT:
            return (latest, "no committed offset: log end") if before is None else (before, None)
        case Where.DATETIME | Where.DURATION:
            since = logs.since.get(partition)
            return (latest, "no later record: log end") if since is None else (since, None)
        case Where.SHIFT:
            if before is None:
                raise CommandFailed(f"{partition} has no committed offset to shift")
            return _clamped(before + wanted, earliest, latest)
        case Where.OFFSET | Where.FILE:
            return _clamped(wanted, earliest, latest)


def _clamped(offset: int, earliest: int, latest: int) -> tuple[int, str | None]:
    if offset > latest:
        return latest, f"{offset} is after the log end"
    if offset < earliest:
        return earliest, f"{offset} is before the log start"
    return offset, None
