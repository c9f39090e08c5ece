"""TxnOffsetCommit (28): commits offsets of a group with a transaction; they count when it commits.

The partition of `__consumer_offsets` is verified as that of a Produce is: the coordinator of the
transaction must know it.

Version notes. Version 2 added the leader epoch; from 3 on the consumer's generation, member id and
instance are checked (KIP-447); TRANSACTION_ABORTABLE is known from 4 on; from 5 on the broker adds
the partition to the transaction (KIP-890).
"""

from collections.abc import Callable
from typing import Final

from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequest
from kio.schema.txn_offset_commit.v5.response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.base.turns import Turns
from barnabas.coordinator.result import Transaction
from barnabas.groups.classic.classic_messages import CommitClaim
from barnabas.groups.offsets.offset_messages import OffsetsReply, PartitionCommit, TopicCommits
from barnabas.log.producers.verification import UNGUARDED
from barnabas.server.broker import Broker
from barnabas.server.groups.offsets_topic import OFFSETS_TOPIC
from barnabas.server.requests.dispatch import Call
from barnabas.server.requests.offset_commits import error_codes, known_partitions
from barnabas.server.transactions.partition_verification import Asked
from barnabas.wire.schema import NO_THROTTLE

ABORTABLE_SINCE: Final = 4
ADDS_SINCE: Final = 5

# The client tries again after these, without looking for the group's coordinator again: that one is
# right. Kafka does so for NETWORK_EXCEPTION alone.
_RETRIED: Final = frozenset(
    {
        ErrorCode.network_exception,
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.concurrent_transactions,
    }
)


async def handle(
    broker: Broker, request: TxnOffsetCommitRequest, call: Call
) -> TxnOffsetCommitResponse:
    known = await known_partitions(broker.metadata, request.topics)
    try:
        reply = await _commit(broker, request, call.version, known)
    except BrokerError as e:
        reply = OffsetsReply(error=e.code)
    return await _response(request, error_codes(reply, known))


async def _commit(
    broker: Broker, request: TxnOffsetCommitRequest, version: int, known: set[tuple[str, int]]
) -> OffsetsReply:
    """Raises BrokerError."""
    if not request.group_id:
        raise BrokerError(ErrorCode.invalid_group_id)
    claim = CommitClaim(
        request.group_id,
        request.member_id,
        request.generation_id,
        request.group_instance_id,
        is_transactional=True,
        knows_group_id_not_found=False,
    )
    turns = Turns()
    topics = [
        TopicCommits(
            topic.name,
            await turns.listed(
                PartitionCommit(
                    each.partition_index,
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.committed_metadata,
                )
                for each in topic.partitions
                if (topic.name, each.partition_index) in known
            ),
        )
        for topic in request.topics
    ]
    # Last: nothing may come between what it finds and the append.
    transaction = await _verified(broker, request, version)
    return await broker.groups.ask(
        request.group_id,
        lambda shard, now: shard.offsets.commit(claim, topics, now, transaction=transaction),
    )


async def _verified(broker: Broker, request: TxnOffsetCommitRequest, version: int) -> Transaction:
    """The transaction, with the guard for its first append to the group's partition.

    Raises  BrokerError, if its coordinator does not know the partition
    """
    producer_id, epoch = request.producer_id, request.producer_epoch
    adds = version >= ADDS_SINCE
    if not adds and not broker.verification.is_enabled:
        return Transaction(producer_id, epoch, UNGUARDED)
    at = TopicPartition(OFFSETS_TOPIC, broker.groups.partition_of(request.group_id))
    leader = broker.replicas.find(*at)
    if leader is None:
        raise BrokerError(ErrorCode.not_coordinator)
    producers = leader.log.producers
    if producers.has_ongoing(producer_id, epoch):
        return Transaction(producer_id, epoch)
    now_ms = broker.clock.now_ms()
    guard = producers.verifications.begin(producer_id, epoch, 0, now_ms, is_epoch_bumped=adds)
    asked = Asked(request.transactional_id, producer_id, epoch, (at,), adds)
    codes = await broker.verification.ask(asked)
    if codes[at] is not ErrorCode.none:
        raise BrokerError(_commit_error(codes[at], version))
    return Transaction(producer_id, epoch, guard)


def _commit_error(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.transaction_abortable and version < ABORTABLE_SINCE:
        return ErrorCode.invalid_txn_state
    if code is ErrorCode.concurrent_transactions and version >= ADDS_SINCE:
        return code
    return ErrorCode.coordinator_load_in_progress if code in _RETRIED else code


async def _response(
    request: TxnOffsetCommitRequest, code_of: Callable[[str, int], ErrorCode]
) -> TxnOffsetCommitResponse:
    turns = Turns()
    return TxnOffsetCommitResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            [
                TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=tuple(
                        await turns.listed(
                            TxnOffsetCommitResponsePartition(
                                partition_index=each.partition_index,
                                error_code=code_of(topic.name, each.partition_index),
                            )
                            for each in topic.partitions
                        )
                    ),
                )
                for topic in request.topics
            ]
        ),
    )
