"""Checks of replicas: all exist, and are equal byte for byte up to the high watermark.

Replicas of a compacted topic differ: each broker compacts at its own time.
"""

from collections.abc import Iterator
from itertools import pairwise

from barnabas.sim.checkers.history import COMPACTED
from barnabas.sim.checkers.violations import FinalPartition, FinalState, Violation, ViolationKind
from barnabas.wire.records.batch import headers


def check_replicas(final: FinalState) -> Iterator[Violation]:
    for end in final.partitions:
        for broker in end.assigned:
            if broker not in end.replicas:
                yield Violation(ViolationKind.MISSING, f"{end.at} on broker {broker}")
        if end.at.topic != COMPACTED:
            yield from _check_same(end)


def _check_same(end: FinalPartition) -> Iterator[Violation]:
    brokers = sorted(end.replicas)
    for first, other in pairwise(brokers):
        if end.replicas[first] != end.replicas[other]:
            one, two = _batches(end.replicas[first]), _batches(end.replicas[other])
            differ = sorted(one.items() ^ two.items())
            facts = f"{end.at} of brokers {first} and {other}, first at offset {differ[0][0]}"
            yield Violation(ViolationKind.DIVERGED, facts)


def _batches(log: bytes) -> dict[int, bytes]:
    return {header.base_offset: log[at : at + header.size] for at, header in headers(log)}
