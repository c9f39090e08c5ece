"""Replica assignment of new partitions: even over brokers, and over racks if all have one.

This is Kafka's algorithm. Leaders go round the list of brokers from a starting point. The other
replicas follow at a distance that grows by one with every round, so that the followers of what
one broker leads are spread over all others. With racks the list alternates between them, and a
rack gets a second replica only when every rack has one.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from barnabas.base.ids import BrokerId
from barnabas.base.randomness import Random

Racks = Mapping[BrokerId, str | None]
Replicas = dict[int, tuple[BrokerId, ...]]


def assign(racks: Racks, partitions: int, replication_factor: int, random: Random) -> Replicas:
    """The replicas of a new topic's partitions, the preferred leaders first.

    `racks` are the brokers to choose from. Racks count only if every broker has one.
    The caller has checked that `replication_factor` brokers exist.
    """
    start, shift = random.below(len(racks)), random.below(len(racks))
    return assign_from(racks, partitions, replication_factor, start, shift)


def assign_more(racks: Racks, existing: Mapping[int, Sequence[BrokerId]], more: int) -> Replicas:
    """The replicas of `more` partitions of a topic, continuing where the existing ones end."""
    leader, factor = existing[0][0], len(existing[0])
    start = next((i for i, broker in enumerate(sorted(racks)) if broker >= leader), 0)
    return assign_from(racks, more, factor, start, start, first=len(existing))


def assign_from(
    racks: Racks, partitions: int, replication_factor: int, start: int, shift: int, first: int = 0
) -> Replicas:
    """Assign partitions `first` to `first + partitions - 1`, deterministically.

    The broker at `start` of the list leads partition 0; its next replica is on the broker
    `shift + 1` places further on.
    """
    named = {broker: rack for broker, rack in racks.items() if rack is not None}
    with_racks = bool(racks) and len(named) == len(racks)
    brokers = alternated(named) if with_racks else sorted(racks)
    rack_count = len(set(named.values())) if with_racks else 1
    assigned: Replicas = {}
    for partition in range(first, first + partitions):
        if partition % len(brokers) == 0 and partition > 0:
            shift += 1
        leader = (partition + start) % len(brokers)
        order = [brokers[leader], *_others(brokers, leader, shift * rack_count)]
        chosen = _one_per_rack_first(order, named) if with_racks else order
        assigned[partition] = tuple(chosen[:replication_factor])
    return assigned


def alternated(racks: Mapping[BrokerId, str]) -> list[BrokerId]:
    """The brokers sorted within each rack, one from every rack in turn."""
    by_rack: dict[str, list[BrokerId]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    deepest = max(map(len, by_rack.values()))
    columns = [by_rack[rack] for rack in sorted(by_rack)]
    return [column[row] for row in range(deepest) for column in columns if row < len(column)]


def _others(brokers: Sequence[BrokerId], leader: int, shift: int) -> Iterator[BrokerId]:
    """Every broker but the leader, in the order in which they are tried."""
    others = len(brokers) - 1
    for step in range(others):
        yield brokers[(leader + 1 + (shift + step) % others) % len(brokers)]


def _one_per_rack_first(order: Sequence[BrokerId], racks: Mapping[BrokerId, str]) -> list[BrokerId]:
    """The brokers in order, none from a rack again before every rack has one; then the rest."""
    count = len({racks[broker] for broker in order})
    chosen: dict[BrokerId, None] = {}
    used: set[str] = set()
    for broker in chain(order, order[1:]):
        if broker not in chosen and (racks[broker] not in used or len(used) == count):
            chosen[broker] = None
            used.add(racks[broker])
    return list(chosen)
