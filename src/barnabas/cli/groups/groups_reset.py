"""Where the offsets of a group shall be: decided from where they are and what the logs hold.

Scenarios, ranges and files are those of Kafka's own tool.
"""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from enum import Enum
from typing import Final, NamedTuple

from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.cli.reassign.reassign_plan import Partition


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
    """Where to; `value` is a timestamp in ms, a distance or an offset, where it takes one."""

    where: Where
    value: int = 0


class Logs(NamedTuple):
    """What the leaders told of the partitions, and where the scenario's time begins in each."""

    earliest: Mapping[Partition, int]
    latest: Mapping[Partition, int]
    since: Mapping[Partition, int] = {}


class Change(NamedTuple):
    """One offset that shall be another, and why it is not quite what was asked for."""

    partition: Partition
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


def parse_duration_ms(text: str) -> int:
    """Milliseconds of an ISO 8601 duration, of days and smaller units. Raises Misused."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise Misused(f"--by-duration {text}: expected a duration as P7D, PT1H30M or P1DT12H")
    given = {unit: float(amount) for unit, amount in match.groupdict().items() if amount}
    try:
        return round(timedelta(**given).total_seconds() * _MS_PER_S)
    except OverflowError:
        raise Misused(f"--by-duration {text}: that is longer than there is time") from None


def parse_topics(texts: Iterable[str]) -> dict[str, list[int]]:
    """The partitions of each topic that is named as TOPIC or TOPIC:0,1; none means all of them."""
    chosen: dict[str, list[int]] = {}
    for text in texts:
        match = _TOPIC.fullmatch(text)
        if match is None:
            raise Misused(f"--topic {text}: expected TOPIC or TOPIC:0,1")
        numbers = [int(number) for number in (match["numbers"] or "").split(",") if number]
        before = chosen.get(match["topic"], numbers)
        # Once all were asked for, no list makes them fewer.
        all_of_them = not (before and numbers)
        chosen[match["topic"]] = [] if all_of_them else list(dict.fromkeys([*before, *numbers]))
    return chosen


def parse_plan_file(
    text: str, groups: Sequence[str], source: str
) -> dict[str, dict[Partition, int]]:
    """The offsets that a file gives each of these groups.

    A line is `topic,partition,offset`, for one group, or `group,topic,partition,offset`.
    Raises  CommandFailed if a line is neither, or a group has no line
    """
    plan: dict[str, dict[Partition, int]] = {}
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
        plan.setdefault(group, {})[Partition(topic, int(partition))] = int(offset)
    for group in groups:
        if group not in plan:
            raise CommandFailed(f"{source} has no offsets for group {group}")
    return plan


def format_plan_file(changes: Mapping[str, Sequence[Change]]) -> str:
    """The file that `parse_plan_file` reads; with a column for the group if there are several."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for group, each in changes.items():
        prefix = [group] if len(changes) > 1 else []
        writer.writerows([*prefix, *change.partition, change.after] for change in each)
    return text.getvalue()


def decide_changes(
    scenario: Scenario,
    partitions: Iterable[Partition],
    committed: Mapping[Partition, int],
    logs: Logs,
    requested: Mapping[Partition, int] | None = None,
) -> list[Change]:
    """What becomes of each partition's offset; `requested` is what a file asks for.

    Raises  CommandFailed if a log's offsets are not known, or there is nothing to shift
    """
    changes = []
    for partition in sorted(partitions):
        if partition not in logs.earliest or partition not in logs.latest:
            raise CommandFailed(
                f"no leader tells the offsets of {partition}; `barnabas topics describe` shows why"
            )
        before = committed.get(partition)
        wanted = (requested or {}).get(partition, scenario.value)
        after, note = _decide(scenario.where, wanted, partition, before, logs)
        changes.append(Change(partition, before, after, note))
    return changes


def _decide(
    where: Where, wanted: int, partition: Partition, before: int | None, logs: Logs
) -> tuple[int, str | None]:
    earliest, latest = logs.earliest[partition], logs.latest[partition]
    match where:
        case Where.EARLIEST:
            return earliest, None
        case Where.LATEST:
            return latest, None
        case Where.CURRENT:
            return (latest, "none was committed: the end") if before is None else (before, None)
        case Where.DATETIME | Where.DURATION:
            since = logs.since.get(partition)
            return (latest, "no record is that late: the end") if since is None else (since, None)
        case Where.SHIFT:
            if before is None:
                raise CommandFailed(f"{partition} has no committed offset that could be shifted")
            return _clamped(before + wanted, earliest, latest)
        case Where.OFFSET | Where.FILE:
            return _clamped(wanted, earliest, latest)


def _clamped(offset: int, earliest: int, latest: int) -> tuple[int, str | None]:
    if offset > latest:
        return latest, f"{offset} is beyond the end"
    if offset < earliest:
        return earliest, f"{offset} is before the beginning"
    return offset, None
