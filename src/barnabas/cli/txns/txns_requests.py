"""Requests about transactions to coordinators and partition leaders, with plain results."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition, by_topic
from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.raw_client import RawClient
from barnabas.client.metadata import fields
from barnabas.client.retries import error_words
from barnabas.wire.apis import ApiKey
from barnabas.wire.schema import Message

# A coordinator that nobody knows: no greater than any epoch of a real one.
LOWEST_COORDINATOR_EPOCH: Final = 0
_MOST_AT_ONCE: Final = 500  # partitions in one DescribeProducers request
_NOT_OPEN: Final = -1


class Listing(NamedTuple):
    """One transactional id, as its coordinator lists it."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class Description(NamedTuple):
    """One transactional id; `start_ms` is None where no transaction is open."""

    coordinator: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]


class Producer(NamedTuple):
    """A producer that a partition knows; `start_offset` is that of its open transaction."""

    at: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    start_offset: int | None


async def list_transactions(
    client: RawClient,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    longer_than_ms: int = -1,
) -> list[Listing]:
    """The transactional ids of all coordinators that match all filters, by id.

    Raises  CommandFailed if a coordinator loads, or does not know a state; PeerGone
    """
    request = fields(
        state_filters=tuple(states),
        producer_id_filters=tuple(producer_ids),
        duration_filter=longer_than_ms,
    )
    found = []
    for broker in (await client.metadata()).brokers:
        answer = await client.ask(broker.node_id, ApiKey.LIST_TRANSACTIONS, request)
        if answer.error_code is not ErrorCode.none:
            raise CommandFailed(f"broker {broker.node_id}: {error_words(answer.error_code)}")
        if answer.unknown_state_filters:
            unknown = ", ".join(answer.unknown_state_filters)
            raise CommandFailed(f"broker {broker.node_id} does not know the state {unknown}")
        found += [
            Listing(each.transactional_id, broker.node_id, each.producer_id, each.transaction_state)
            for each in answer.transaction_states
        ]
    return sorted(found)


async def describe_transaction(client: RawClient, transactional_id: str) -> Description | None:
    """The state of one transactional id; None if its coordinator does not know it.

    Raises  CommandFailed, PeerGone
    """
    request = fields(transactional_ids=(transactional_id,))
    coordinator, answer = await client.ask_transaction_coordinator(
        transactional_id, ApiKey.DESCRIBE_TRANSACTIONS, request
    )
    (state,) = answer.transaction_states
    if state.error_code is ErrorCode.transactional_id_not_found:
        return None
    if state.error_code is not ErrorCode.none:
        raise CommandFailed(f"transactional id {transactional_id}: {error_words(state.error_code)}")
    start_ms = state.transaction_start_time_ms
    return Description(
        coordinator,
        transactional_id,
        state.producer_id,
        state.producer_epoch,
        state.transaction_state,
        state.transaction_timeout_ms,
        None if start_ms < 0 else start_ms,
        tuple(
            TopicPartition(topic.topic, partition)
            for topic in state.topics
            for partition in topic.partitions
        ),
    )


async def describe_producers(
    client: RawClient, broker: int, partitions: Sequence[TopicPartition]
) -> list[Producer]:
    """The producers that this broker's replicas of these partitions know.

    Raises  CommandFailed for the first partition that fails, PeerGone
    """
    found: list[Producer] = []
    for start in range(0, len(partitions), _MOST_AT_ONCE):
        topics = tuple(
            fields(name=topic, partition_indexes=tuple(numbers))
            for topic, numbers in by_topic(partitions[start : start + _MOST_AT_ONCE]).items()
        )
        answer = await client.ask(broker, ApiKey.DESCRIBE_PRODUCERS, fields(topics=topics))
        for topic in answer.topics:
            for partition in topic.partitions:
                found += _producers(
                    TopicPartition(topic.name, partition.partition_index), partition
                )
    return found


def _producers(at: TopicPartition, partition: Message) -> Iterable[Producer]:
    if partition.error_code is not ErrorCode.none:
        why = error_words(partition.error_code, partition.error_message)
        raise CommandFailed(f"partition {at.topic}:{at.partition}: {why}")
    for each in partition.active_producers:
        start = each.current_txn_start_offset
        yield Producer(
            at,
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.last_sequence,
            each.last_timestamp,
            None if start == _NOT_OPEN else start,
        )


async def write_abort_marker(
    client: RawClient,
    leader: int,
    at: TopicPartition,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
) -> None:
    """Abort one producer's transaction in one partition; its coordinator does not notice.

    Raises  CommandFailed, and nothing is written; PeerGone, and the outcome is unknown
    """
    marker = fields(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_result=False,
        topics=(fields(name=at.topic, partition_indexes=(at.partition,)),),
        coordinator_epoch=max(LOWEST_COORDINATOR_EPOCH, coordinator_epoch),
    )
    answer = await client.ask(leader, ApiKey.WRITE_TXN_MARKERS, fields(markers=(marker,)))
    for result in answer.markers:
        for topic in result.topics:
            for partition in topic.partitions:
                if partition.error_code is not ErrorCode.none:
                    why = error_words(partition.error_code)
                    raise CommandFailed(f"partition {at.topic}:{at.partition}: {why}")


async def leader_of(client: RawClient, at: TopicPartition) -> int:
    """The broker id of the partition's leader. Raises CommandFailed if there is none."""
    (topic,) = (await client.describe_topics([at.topic])).topics
    for partition in topic.partitions:
        if partition.partition_index == at.partition and partition.leader_id >= 0:
            leader: int = partition.leader_id
            return leader
    raise CommandFailed(f"topic {at.topic} has no partition {at.partition} with a leader")


async def open_transaction(
    client: RawClient, leader: int, at: TopicPartition, start_offset: int
) -> tuple[int, int, int]:
    """Producer id, producer epoch and coordinator epoch of the transaction that begins there.

    Raises  CommandFailed if none does, PeerGone
    """
    for each in await describe_producers(client, leader, [at]):
        if each.start_offset == start_offset:
            return each.producer_id, each.producer_epoch, each.coordinator_epoch
    raise CommandFailed(
        f"no open transaction starts at offset {start_offset} of {at.topic}:{at.partition};"
        " `barnabas txns describe-producers` shows those that are open"
    )
