"""Checks of the replica assignments that a client asks for."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import BrokerId

Assignment = Mapping[int, tuple[BrokerId, ...]]

# So many partitions can be made at once; a number that was meant otherwise ends no broker.
MOST_AT_ONCE: Final = 10_000


def check_numbers(partitions: int, replication_factor: int, brokers: int) -> None:
    """Refuse a topic that so many brokers cannot have.

    Raises  BrokerError(invalid_partitions, invalid_replication_factor, policy_violation)
    """
    if partitions <= 0:
        raise BrokerError(
            ErrorCode.invalid_partitions, "Number of partitions must be larger than 0."
        )
    if replication_factor <= 0:
        raise BrokerError(
            ErrorCode.invalid_replication_factor, "Replication factor must be larger than 0."
        )
    if replication_factor > brokers:
        raise BrokerError(
            ErrorCode.invalid_replication_factor,
            f"Replication factor: {replication_factor} larger than available brokers: {brokers}.",
        )
    if partitions > MOST_AT_ONCE:
        raise BrokerError(
            ErrorCode.policy_violation, "Unable to perform excessively large batch operation."
        )


def check_creation(assignment: Assignment, brokers: Sequence[BrokerId]) -> None:
    """Raises BrokerError(invalid_replica_assignment) if a topic cannot be made like this."""
    if len({len(replicas) for replicas in assignment.values()}) != 1:
        raise _invalid("All partitions should have the same number of replicas")
    for index, replicas in assignment.items():
        if len(set(replicas)) < len(replicas):
            raise _invalid(f"Duplicate replica assignment found: {index} -> {_listed(replicas)}")
        if not replicas:
            raise _invalid(f"Cannot have replication factor of 0 for partition id {index}.")
    if sorted(assignment) != list(range(len(assignment))):
        raise _invalid("partitions should be a consecutive 0-based integer sequence")
    _check_known(assignment, brokers)


def check_growth(have: int, count: int) -> None:
    """Raises BrokerError(invalid_partitions) unless `count` is more than a topic has."""
    if count < have:
        raise BrokerError(
            ErrorCode.invalid_partitions,
            f"Topic currently has {have} partitions, which is higher than the requested {count}.",
        )
    if count == have:
        raise BrokerError(ErrorCode.invalid_partitions, f"Topic already has {have} partitions.")


def check_added(
    assignment: Assignment, increment: int, replication_factor: int, brokers: Sequence[BrokerId]
) -> None:
    """Raises BrokerError(invalid_replica_assignment) if a topic cannot grow by these partitions."""
    _check_known(assignment, brokers)
    if len(assignment) != increment:
        raise _invalid(
            f"Increasing the number of partitions by {increment} "
            f"but {len(assignment)} assignments provided."
        )
    for index, replicas in assignment.items():
        if not replicas:
            raise _invalid(f"Cannot have replication factor of 0 for partition id {index}.")
        if len(set(replicas)) < len(replicas):
            raise _invalid(
                f"Duplicate brokers not allowed in replica assignment: {_listed(replicas)} "
                f"for partition id {index}."
            )
    if bad := {i: len(r) for i, r in assignment.items() if len(r) != replication_factor}:
        raise _invalid(
            "Inconsistent replication factor between partitions, partition 0 has "
            f"{replication_factor} while partitions [{_listed(bad)}] have replication factors "
            f"[{_listed(bad.values())}], respectively."
        )


def _check_known(assignment: Assignment, brokers: Sequence[BrokerId]) -> None:
    named = dict.fromkeys(broker for replicas in assignment.values() for broker in replicas)
    if unknown := [broker for broker in named if broker not in brokers]:
        raise _invalid(f"Unknown broker(s) in replica assignment: {_listed(unknown)}.")


def _invalid(message: str) -> BrokerError:
    return BrokerError(ErrorCode.invalid_replica_assignment, message)


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))
