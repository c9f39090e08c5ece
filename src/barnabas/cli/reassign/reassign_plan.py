"""Reassignment plans: Kafka's JSON format, and a balanced proposal.

Pure: decides the new replicas from the current ones, moving as little data as balance allows.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from barnabas.base.ids import TopicPartition
from barnabas.cli.exit_codes import CommandFailed, Misused

_ONE: Final = re.compile(r"(?P<topic>[^\s:=]+):(?P<partition>\d{1,9})=(?P<replicas>\d+(,\d+)*)")


ANY: Final = "any"  # the broker chooses the log directory
Plan = dict[TopicPartition, list[int]]
# By broker: the log directory of each partition that is to be in a certain one.
LogDirs = dict[int, dict[TopicPartition, str]]


def format_plan(plan: Mapping[TopicPartition, Sequence[int]]) -> str:
    """The text of a reassignment JSON file."""
    rows = [
        json.dumps({"topic": topic, "partition": number, "replicas": list(replicas)})
        for (topic, number), replicas in sorted(plan.items())
    ]
    return '{"version": 1, "partitions": [\n  ' + ",\n  ".join(rows) + "\n]}"


def parse_plan(text: str, source: str) -> Plan:
    """The plan in a reassignment JSON file.

    Raises  CommandFailed, with `source` and the entry, if the file is invalid
    """
    plan: Plan = {}
    for partition, replicas, _ in _entries(text, source):
        _add(plan, partition, replicas, source)
    if not plan:
        raise CommandFailed(f"{source}: no partitions")
    return plan


def parse_log_dirs(text: str, source: str) -> LogDirs:
    """The log directories in a reassignment JSON file, but for those that are "any".

    Raises  CommandFailed, with `source` and the entry, if the file is invalid
    """
    found: LogDirs = {}
    for partition, replicas, log_dirs in _entries(text, source):
        if log_dirs and len(log_dirs) != len(replicas):
            raise CommandFailed(f"{source}: {partition} needs one of log_dirs for each replica")
        for broker, log_dir in zip(replicas, log_dirs, strict=bool(log_dirs)):
            if log_dir != ANY:
                found.setdefault(broker, {})[partition] = log_dir
    return found


def _entries(text: str, source: str) -> Iterator[tuple[TopicPartition, list[int], list[str]]]:
    """The partition, the replicas and the log directories of each entry."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise CommandFailed(f"{source}: invalid JSON: {error}") from None
    if not isinstance(document, dict) or document.get("version") != 1:
        raise CommandFailed(f'{source}: expected {{"version": 1, "partitions": [...]}}')
    for number, entry in enumerate(document.get("partitions") or (), 1):
        try:
            partition = TopicPartition(str(entry["topic"]), int(entry["partition"]))
            replicas = [int(broker) for broker in entry["replicas"]]
            log_dirs = [str(log_dir) for log_dir in entry.get("log_dirs") or ()]
        except (KeyError, TypeError, ValueError):
            raise CommandFailed(
                f"{source}: entry {number} needs topic, partition and replicas"
            ) from None
        yield partition, replicas, log_dirs


def parse_partitions(options: Iterable[str]) -> Plan:
    """The plan in `--partition TOPIC:N=BROKER,...` options."""
    plan: Plan = {}
    for option in options:
        found = _ONE.fullmatch(option.strip())
        if found is None:
            raise Misused(f"--partition {option}: expected TOPIC:N=BROKER,... such as orders:0=1,2")
        replicas = [int(broker) for broker in found["replicas"].split(",")]
        partition = TopicPartition(found["topic"], int(found["partition"]))
        _add(plan, partition, replicas, f"--partition {option}")
    return plan


def _add(plan: Plan, partition: TopicPartition, replicas: list[int], source: str) -> None:
    if partition in plan:
        raise CommandFailed(f"{source}: duplicate partition {partition}")
    if not replicas:
        raise CommandFailed(f"{source}: {partition} has no replicas")
    if len(set(replicas)) < len(replicas):
        raise CommandFailed(f"{source}: {partition} has duplicate replicas")
    plan[partition] = replicas


def moved(
    before: Mapping[TopicPartition, Sequence[int]], after: Mapping[TopicPartition, Sequence[int]]
) -> int:
    """The number of replicas to copy to get from one plan to the other."""
    return sum(len(set(after[p]) - set(before.get(p, ()))) for p in after)


# A proposal


def propose(
    current: Mapping[TopicPartition, Sequence[int]], racks: Mapping[int, str | None]
) -> Plan:
    """A plan with the same replication factors, on the brokers of `racks` only.

    Each broker gets the same number of replicas and of leaders, as far as racks allow. Replicas
    of a partition are on different racks if there are enough. No other replica moves. Racks are
    ignored unless all brokers have one.

    Raises  CommandFailed if a partition has more replicas than there are brokers
    """
    placement = _Placement(racks)
    plan: Plan = {}
    for partition, replicas in sorted(current.items()):
        if len(replicas) > len(racks):
            raise CommandFailed(
                f"{partition} has {len(replicas)} replicas, but there are {len(racks)} brokers"
            )
        plan[partition] = placement.keep(replicas)
    for partition, replicas in plan.items():
        placement.fill(replicas, len(current[partition]))
    while placement.even_out(plan):
        pass
    _even_out_leaders(plan, racks)
    return plan


class _Placement:
    """The number of replicas per broker, while a plan is made."""

    def __init__(self, racks: Mapping[int, str | None]) -> None:
        aware = None not in racks.values()
        self._racks = {broker: rack if aware else broker for broker, rack in racks.items()}
        self._load = Counter(dict.fromkeys(sorted(racks), 0))

    def keep(self, replicas: Sequence[int]) -> list[int]:
        """The replicas that can stay."""
        kept: list[int] = []
        for broker in replicas:
            if broker in self._racks and self._fits(kept, broker, len(replicas)):
                kept.append(broker)
                self._load[broker] += 1
        return kept

    def fill(self, replicas: list[int], count: int) -> None:
        """Add the brokers with the fewest replicas until there are `count`."""
        while len(replicas) < count:
            free = [broker for broker in self._load if broker not in replicas]
            fitting = [broker for broker in free if self._fits(replicas, broker, count)]
            chosen = min(fitting or free, key=lambda broker: (self._load[broker], broker))
            replicas.append(chosen)
            self._load[chosen] += 1

    def even_out(self, plan: Plan) -> bool:
        """Move one replica to a broker with fewer replicas; return False if none can move."""
        by_load = sorted(self._load, key=lambda broker: (self._load[broker], broker))
        for busy in reversed(by_load):
            for idle in by_load:
                if self._load[busy] - self._load[idle] < 2:
                    break
                if self._move(plan, busy, idle):
                    return True
        return False

    def _move(self, plan: Plan, busy: int, idle: int) -> bool:
        for replicas in plan.values():
            if busy in replicas and idle not in replicas:
                others = [broker for broker in replicas if broker != busy]
                if self._fits(others, idle, len(replicas)):
                    replicas[replicas.index(busy)] = idle
                    self._load[busy] -= 1
                    self._load[idle] += 1
                    return True
        return False

    def _fits(self, replicas: Sequence[int], broker: int, count: int) -> bool:
        """True if the broker's rack may have one more of a partition's `count` replicas."""
        rack = self._racks[broker]
        there = sum(self._racks[other] == rack for other in replicas)
        return there < -(-count // len(set(self._racks.values())))


def _even_out_leaders(plan: Plan, brokers: Iterable[int]) -> None:
    """Reorder replicas, which moves no data, until preferred leaders are balanced."""
    led = Counter(dict.fromkeys(sorted(brokers), 0))
    led.update(replicas[0] for replicas in plan.values())
    changed = True
    while changed:
        changed = False
        for replicas in plan.values():
            idlest = min(replicas, key=lambda broker: (led[broker], broker))
            if led[replicas[0]] - led[idlest] >= 2:
                led[replicas[0]] -= 1
                led[idlest] += 1
                replicas.remove(idlest)
                replicas.insert(0, idlest)
                changed = True
