"""Produce (0): batches from the receive buffer into the log, answered before the next frame.

With acks=all the response waits until all in-sync replicas have the batches; `delayed_produce` says
how. It does not wait if a partition has no other replica.

The first batch of a transaction in a partition is verified: the transaction's coordinator must know
the partition (`transactional_produce`). The request waits for that; later batches do not, and are
served as any others.

Version notes. Served from 3, the first with record batches of magic 2; `old_formats` rewrites those
before it. zstd needs 7; responses hold per-record errors and messages from 8; TRANSACTION_ABORTABLE
is known from 11 on; from 12 on the broker adds partitions to transactions (KIP-890).
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from barnabas.base.at_once import at_once
from barnabas.base.clock import Clock
from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.base.failures import FailureChannel
from barnabas.base.ids import TopicPartition
from barnabas.base.offload import Offload
from barnabas.base.turns import AT_ONCE, in_turns
from barnabas.log.log import Appended
from barnabas.log.producers.verification import VerificationGuard
from barnabas.replication.leader.leader_replica import LeaderReplica
from barnabas.replication.replicas import Replicas
from barnabas.security.authorizer import Authorizer
from barnabas.server.delayed.delayed_produce import ALL, Awaited, DelayedProduce
from barnabas.server.delayed.partition_purgatories import Delayed
from barnabas.server.network.connection import Connection
from barnabas.server.requests.partition_append import ZSTD_SINCE, Done, PartitionAppend
from barnabas.server.requests.produce_access import ProduceAccess, denied_first
from barnabas.server.requests.produce_responses import ProduceResponses, SilentFailure, by_topic
from barnabas.server.requests.repeated_produce import RepeatedProduce
from barnabas.server.requests.replies import Answer, Pending, Refusal, Reply, Work, given
from barnabas.server.transactions.partition_verification import Codes, PartitionVerification
from barnabas.server.transactions.transactional_produce import (
    Guards,
    Headers,
    TransactionalProduce,
    begins_transaction,
    produce_error,
    transactional_headers,
)
from barnabas.wire.produce.produce_codec import (
    PartitionBatches,
    PartitionProduced,
    ProduceRequest,
    SinglePartition,
    read_produce,
    read_single,
    refusal,
    whole,
)
from barnabas.wire.records.compression import SMALL_RECORDS, RecordsTooLarge

_WENT_WELL: Final = (ErrorCode.none,)
_NO_ERROR: Final = frozenset(_WENT_WELL)

NO_CODES: Final[Codes] = {}
# Appends what is left of a request.
AppendLeft = Callable[[int, int, Sequence[PartitionBatches], Guards], Awaitable[list[Done]]]


class Produce:
    """Appends as leader; checks the operations in `delayed` for every partition that grew.

    A thread does work that would block the loop (decompressing or recompressing a large batch, an
    fsync that `flush.messages` demands), and the connection waits. Only so many large batches are
    decompressed at a time, since each may take as much memory as the limit allows.
    """

    def __init__(
        self,
        replicas: Replicas,
        clock: Clock,
        offload: Offload,
        delayed: Delayed,
        failures: FailureChannel,
        work: Work,
        errors: Counter[int],
        max_decompressed: int,
        verification: PartitionVerification,
        authorizer: Authorizer | None = None,
    ) -> None:
        """`errors` counts what partitions are refused for, by its code.

        A batch's records may take `max_decompressed` bytes, or `max.message.bytes` if that is more.
        """
        self._replicas = replicas
        self._clock = clock
        self._delayed = delayed
        self._append = PartitionAppend(
            replicas, clock, offload, delayed, failures, max_decompressed
        )
        self._work = work
        self._responses = ProduceResponses(errors)
        self._transactions = TransactionalProduce(replicas, clock, verification)
        self._access = ProduceAccess(authorizer)

    def __call__(
        self,
        version: int,
        correlation_id: int,
        frame: memoryview,
        position: int,
        connection: Connection,
    ) -> Reply:
        single = read_single(version, frame, position)
        if (
            single is not None
            and -1 <= single.acks <= 1
            and version >= ZSTD_SINCE
            and self._access.is_usual(single, connection)
        ):
            leader = self._replicas.find(single.topic, single.partition)
            if leader is not None and leader.is_plain and not leader.must_block(single.records):
                begins = begins_transaction(leader, single)
                guard = self._transactions.verified(version, single, leader) if begins else None
                if guard is not None or not begins:
                    with suppress(RecordsTooLarge):
                        return self._single(
                            version, correlation_id, single, leader, frame, connection, guard
                        )
        # The whole request is read before any of it is appended: a malformed one leaves no trace.
        request = read_produce(version, frame, position) if single is None else whole(single)
        headers = transactional_headers(request)
        denied = self._access.denied(request, connection, is_transactional=bool(headers))
        request, done = denied_first(request, denied) if denied else (request, [])
        if allowed := {key: each for key, each in headers.items() if key[0] not in denied}:
            return self._transactional(version, correlation_id, request, allowed, connection, done)
        return self._serve(version, correlation_id, request, connection, {}, done)

    def _serve(
        self,
        version: int,
        correlation_id: int,
        request: ProduceRequest,
        connection: Connection,
        guards: Guards,
        done: list[Done],
    ) -> Reply:
        """Serve the partitions behind those that are `done`."""
        left = request.partitions[len(done) :]
        later = partial(self._later, version, correlation_id, request, connection, done, guards)
        if len(left) > AT_ONCE:
            return later(append=self._in_turns)
        for batches in left:
            leader = self._replicas.find(batches.topic, batches.partition)
            if leader is not None and leader.must_block(batches.records):
                return later(append=self._in_threads)
        for batches in left:
            try:
                done.append(self._append.append(version, request.acks, batches, guards))
            except RecordsTooLarge:
                return later(append=self._in_threads)
        return self._finish(version, correlation_id, request, done)

    def _transactional(
        self,
        version: int,
        correlation_id: int,
        request: ProduceRequest,
        headers: Headers,
        connection: Connection,
        done: list[Done],
    ) -> Reply:
        """Serve a request with transactional batches; it suspends only if one is to be verified."""
        begun = self._transactions.begin(version, request, headers)
        if begun.error is not ErrorCode.none:
            left = request.partitions[len(done) :]
            done += [Done(refusal(each.partition, begun.error)) for each in left]
            return self._finish(version, correlation_id, request, done)
        found = begun.codes if begun.asked is None else at_once(self._transactions.verify(begun))
        if isinstance(found, Mapping) and set(found.values()) <= _NO_ERROR:
            return self._serve(version, correlation_id, request, connection, begun.guards, done)
        kept = _kept(request)

        async def produce() -> Answer | Refusal:
            codes = found if isinstance(found, Mapping) else await found
            left = kept.partitions[len(done) :]
            done.extend(await self._in_turns(version, kept.acks, left, begun.guards, codes))
            return await self._finish_later(version, correlation_id, kept, done)

        return self._work.answer(Pending(), f"api=PRODUCE peer={connection.peer}", produce())

    async def _verified(
        self, version: int, acks: int, batches: PartitionBatches, guards: Guards, codes: Codes
    ) -> Done:
        """Append a partition's batch, unless the coordinator does not know the partition."""
        code = codes.get(TopicPartition(batches.topic, batches.partition), ErrorCode.none)
        if code is not ErrorCode.none:
            return Done(refusal(batches.partition, produce_error(code, version)))
        leader = self._replicas.find(batches.topic, batches.partition)
        if leader is None or not leader.must_block(batches.records):
            with suppress(RecordsTooLarge):
                return self._append.append(version, acks, batches, guards)
        return await self._append.append_in_thread(version, acks, batches, guards)

    def _single(
        self,
        version: int,
        correlation_id: int,
        single: SinglePartition,
        leader: LeaderReplica,
        frame: memoryview,
        connection: Connection,
        guard: VerificationGuard | None = None,
    ) -> bytes | Pending | None:
        """One batch for one partition that asks for nothing special: the case to be fast in.

        The first batch of a transaction has the `guard` with which it was verified.

        Raises  RecordsTooLarge, nothing appended, for records that a thread should look at
        """
        _, acks, topic, partition, records, _, timeout_ms = single
        try:
            if acks == ALL and not leader.is_sole:
                leader.check_in_sync()
            now_ms = self._clock.now_ms()
            appended = leader.append(records, now_ms, max_decompressed=SMALL_RECORDS, guard=guard)
        except RecordsTooLarge:
            raise
        except (BrokerError, DiskFault) as e:
            refused = self._append.refused(partition, e)
            return self._responses.reply(version, correlation_id, acks, [(topic, [refused])])
        self._delayed.on_append(leader)
        if acks and guard is None:
            self._offer_shortcut(version, frame, single, connection)
        return self._acknowledge(version, correlation_id, leader, appended, acks, timeout_ms)

    def _acknowledge(
        self,
        version: int,
        correlation_id: int,
        leader: LeaderReplica,
        appended: Appended,
        acks: int,
        timeout_ms: int,
    ) -> bytes | Pending | None:
        """The response for one batch, at once unless acks=all has to wait for followers."""
        if acks == 0:
            return None
        topic, partition = leader.topic_partition
        went_well = self._responses.success(version, topic, partition)
        base_offset, end, time_ms = appended

        def respond(codes: Sequence[ErrorCode]) -> bytes:
            start = leader.log.log_start_offset
            if codes[0] is ErrorCode.none:
                return went_well.response(correlation_id, base_offset, time_ms, start)
            failed = PartitionProduced(partition, int(codes[0]), base_offset, time_ms, start)
            return self._responses.written(version, correlation_id, [(topic, [failed])])

        if acks != ALL or leader.high_watermark >= end:
            return respond(_WENT_WELL)
        operation = DelayedProduce(self._replicas, (Awaited(leader, end),), respond)
        keys = (leader.topic_partition,)
        self._delayed.produces.try_complete_else_watch(operation, keys, timeout_ms)
        return operation.pending

    def _finish(
        self, version: int, correlation_id: int, request: ProduceRequest, done: list[Done]
    ) -> bytes | Pending | None:
        """The answer, when nothing of it has to wait any more."""
        awaited = [each.awaited for each in done if each.awaited is not None]
        if not awaited:
            topics = by_topic(request, [each.produced for each in done])
            return self._responses.reply(version, correlation_id, request.acks, topics)
        # The records are in the log: a delayed operation must not keep their receive buffer.
        request = _without_records(request)

        def respond(codes: Sequence[ErrorCode]) -> bytes:
            fared = iter(codes)
            produced = [
                each.produced
                if each.awaited is None
                else each.produced._replace(code=int(next(fared)))
                for each in done
            ]
            return self._responses.written(version, correlation_id, by_topic(request, produced))

        operation = DelayedProduce(self._replicas, awaited, respond)
        keys = [each.leader.topic_partition for each in awaited]
        self._delayed.produces.try_complete_else_watch(operation, keys, request.timeout_ms)
        return operation.pending

    def _offer_shortcut(
        self, version: int, frame: memoryview, single: SinglePartition, connection: Connection
    ) -> None:
        """Let the connection serve the next request that begins like this one by itself."""
        went_well = self._responses.success(version, single.topic, single.partition)
        key = (single.topic, single.partition)
        connection.remember(
            frame,
            single.sized_at,
            RepeatedProduce(
                version,
                key,
                went_well,
                single.sized_at,
                self._replicas,
                self._clock,
                self._delayed.on_append,
                self._refuse,
                self._acknowledge,
                single.acks,
                single.timeout_ms,
                single.transactional_id is not None,
            ),
        )

    def _refuse(
        self, version: int, correlation_id: int, key: tuple[str, int], fault: DiskFault
    ) -> bytes:
        topic, partition = key
        refused = [(topic, [self._append.refused(partition, fault)])]
        return self._responses.written(version, correlation_id, refused)

    # -- the slow path -------------------------------------------------------

    async def _in_threads(
        self, version: int, acks: int, left: Sequence[PartitionBatches], guards: Guards
    ) -> list[Done]:
        """Append to several partitions; their large batches wait for each other."""
        appends = (self._append.append_in_thread(version, acks, each, guards) for each in left)
        return await asyncio.gather(*appends)

    async def _in_turns(
        self,
        version: int,
        acks: int,
        left: Sequence[PartitionBatches],
        guards: Guards,
        codes: Codes = NO_CODES,
    ) -> list[Done]:
        """Append to several partitions; others have turns between them."""
        return [
            await self._verified(version, acks, each, guards, codes)
            async for each in in_turns(left)
        ]

    def _later(
        self,
        version: int,
        correlation_id: int,
        request: ProduceRequest,
        connection: Connection,
        done: list[Done],
        guards: Guards,
        append: AppendLeft,
    ) -> Pending:
        """Serve the partitions that are not `done` yet by `append`, which needs the receive
        buffer; followers may take longer."""
        pending, named = Pending(is_read=False), _without_records(request)
        left = request.partitions[len(done) :]

        async def produce() -> Answer | Refusal:
            nonlocal left
            try:
                done.extend(await append(version, named.acks, left, guards))
            finally:
                del left
                pending.read()
            return await self._finish_later(version, correlation_id, named, done)

        return self._work.answer(pending, f"api=PRODUCE peer={connection.peer}", produce())

    async def _finish_later(
        self, version: int, correlation_id: int, request: ProduceRequest, done: list[Done]
    ) -> Answer | Refusal:
        try:
            reply = self._finish(version, correlation_id, request, done)
        except SilentFailure as e:
            return Refusal(str(e))
        return await given(reply) if isinstance(reply, Pending) else reply or b""


def _kept(request: ProduceRequest) -> ProduceRequest:
    """The request with records of its own: it waits for another broker, and holds no buffer."""
    return request._replace(
        partitions=[
            batches._replace(records=batches.records and memoryview(bytearray(batches.records)))
            for batches in request.partitions
        ]
    )


def _without_records(request: ProduceRequest) -> ProduceRequest:
    named = [batches._replace(records=None) for batches in request.partitions]
    return request._replace(partitions=named)
