"""A simulated idempotent producer, which records the outcome of each batch in the history.

Theory of operation. Several batches of one partition are sent together on one connection. Those
that were not acknowledged are sent again, unchanged and one by one, until the delivery timeout.
Then the history gets the outcome of each, and the producer takes a new epoch or a new id: the
sequence of a batch whose outcome is unknown must not be reused. A broker that does not know a
producer accepts any first sequence, so the first batch of an epoch is sent alone.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.base.ids import TopicPartition
from barnabas.base.randomness import Random
from barnabas.client.connection import AsyncConnection
from barnabas.client.frames import MalformedResponse
from barnabas.client.produce import Produce, read_produce_response, write_produce_request
from barnabas.client.retries import Address
from barnabas.client.security import Frame
from barnabas.client.versions import NEWEST
from barnabas.sim.checkers.history import (
    NO_OFFSET,
    ClientOperation,
    OperationHistory,
    OperationOutcome,
    Send,
    Sent,
    key_of,
    payload,
)
from barnabas.sim.clients.client_connections import REQUEST_S, Connections
from barnabas.wire.apis import ApiKey
from barnabas.wire.records.records import Record, build_batch
from barnabas.wire.schema import duration

MOST_IN_FLIGHT: Final = 5  # the number of batches that a broker recognizes as duplicates
DELIVERY_S: Final = 10.0
PRODUCE_TIMEOUT_MS: Final = 3_000
EPOCH_MS: Final = 1_790_000_000_000  # start of time, for the records' timestamps
_E = ErrorCode
_VERSION: Final = NEWEST[ApiKey.PRODUCE]

# Errors after which the batch was not appended.
NOT_APPENDED: Final = (
    _E.not_enough_replicas,
    _E.out_of_order_sequence_number,
    _E.invalid_producer_epoch,
    _E.unknown_producer_id,
    _E.message_too_large,
    _E.record_list_too_large,
    _E.invalid_required_acks,
    _E.invalid_record,
    _E.corrupt_message,
)
# Errors that are not retriable.
HOPELESS: Final = (
    _E.invalid_producer_epoch,
    _E.unknown_producer_id,
    _E.message_too_large,
    _E.record_list_too_large,
    _E.invalid_required_acks,
    _E.invalid_record,
    _E.unknown_server_error,
)


@dataclass(slots=True)
class _InFlight:
    operation: ClientOperation
    send: Send
    produce: Produce
    may_be_there: bool = False  # an attempt ended without a rejection
    is_hopeless: bool = False  # the last error is not retriable
    why: str = ""


class Producer:
    """One producer; used by one task."""

    def __init__(
        self,
        name: str,
        bootstrap: Sequence[Address],
        random: Random,
        history: OperationHistory,
        *,
        acks: int,
    ) -> None:
        self.connections = Connections(name, bootstrap, random)
        self._random = random
        self._history = history
        self._acks = acks
        self._producer_id = -1
        self._producer_epoch = 0
        self._sequences: dict[TopicPartition, int] = {}

    def close(self) -> None:
        self.connections.close()

    async def send(self, at: TopicPartition, counts: Sequence[int]) -> bool:
        """Send batches with this many new values each; return when the outcome of all is final.

        False if not all were acknowledged: those after the first failure may be missing, too.
        Batches with acks=0 are sent once, and their outcome stays unknown.
        """
        if self._producer_id < 0 and not await self._identify():
            return False
        waiting = [self._begin(at, count) for count in counts]
        if self._acks == 0:
            is_done = await self._tell(at, waiting)
        else:
            waiting = await self._deliver(at, waiting)
            is_done = not waiting
        for each in waiting:
            outcome = OperationOutcome.UNKNOWN if each.may_be_there else OperationOutcome.FAILED
            self._history.end(each.operation, outcome, why=each.why)
        if not is_done:
            self._renew()
        return is_done

    def _begin(self, at: TopicPartition, count: int) -> _InFlight:
        sequence = self._sequences.get(at, 0)
        self._sequences[at] = sequence + count
        values = tuple(self._history.new_value() for _ in range(count))
        send = Send(at, values, self._acks, self._producer_id, self._producer_epoch, sequence)
        operation = self._history.begin(self.connections.name, send)
        return _InFlight(operation, send, _produce(send, EPOCH_MS + round(operation.began * 1000)))

    # -- with answers --------------------------------------------------------

    async def _deliver(self, at: TopicPartition, waiting: list[_InFlight]) -> list[_InFlight]:
        """Send until all are acknowledged, one fails for good, or the timeout; return the rest.

        Stops at once if the topic is deleted.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + DELIVERY_S
        together = 1 if waiting[0].send.sequence == 0 else len(waiting)
        while True:
            await self._attempt(at, waiting[:together])
            waiting = [
                each for each in waiting if each.operation.outcome is not OperationOutcome.OK
            ]
            for behind in waiting[1:]:
                behind.why = ""  # its error was caused by the batch before it
            if not waiting or waiting[0].is_hopeless or loop.time() >= until:
                return waiting
            together = 1
            if waiting[0].why:
                await self.connections.back_off()
                if await self.connections.refresh() and self.connections.is_gone(at):
                    return waiting

    async def _attempt(self, at: TopicPartition, batches: Sequence[_InFlight]) -> None:
        """Send each batch once, pipelined."""
        try:
            connection = await self._leader(at)
        except PeerGone as gone:
            for each in batches:
                each.why = str(gone)
            return
        await asyncio.gather(*(self._send_one(connection, each) for each in batches))

    async def _leader(self, at: TopicPartition) -> AsyncConnection:
        if self.connections.leader(at) is None:
            await self.connections.refresh()
        leader = self.connections.leader(at)
        if leader is None:
            raise PeerGone(f"nobody is known to lead {at}")
        return await self.connections.to(leader.broker)

    async def _send_one(self, connection: AsyncConnection, each: _InFlight) -> None:
        try:
            response = await connection.exchange(self._frame(each.produce), REQUEST_S)
            produced = read_produce_response(_VERSION, response)
        except (PeerGone, MalformedResponse) as gone:
            each.may_be_there, each.why = True, str(gone)
            return
        error, each.why = produced.error, produced.error.name
        if error is _E.none:
            self._history.end(each.operation, OperationOutcome.OK, Sent(produced.base_offset))
        elif error is _E.duplicate_sequence_number:
            self._history.end(each.operation, OperationOutcome.OK, Sent(NO_OFFSET))
        else:
            each.may_be_there |= error not in NOT_APPENDED
            each.is_hopeless = error in HOPELESS

    # -- without answers -----------------------------------------------------

    async def _tell(self, at: TopicPartition, batches: Sequence[_InFlight]) -> bool:
        try:
            connection = await self._leader(at)
            for each in batches:
                connection.send_unanswered(self._frame(each.produce))
                each.may_be_there = True
        except PeerGone as gone:
            batches[-1].why = str(gone)
            await self.connections.refresh()
            return False
        return True

    def _frame(self, produce: Produce) -> Frame:
        name = self.connections.name
        return lambda number: write_produce_request(_VERSION, number, name, produce)

    # -- the producer id -----------------------------------------------------

    async def _identify(self) -> bool:
        try:
            answer = await self.connections.ask_any(
                ApiKey.INIT_PRODUCER_ID, transactional_id=None, transaction_timeout=duration(60_000)
            )
        except PeerGone:
            await self.connections.back_off()
            return False
        if answer.error_code is not _E.none:
            await self.connections.back_off()
            return False
        self._producer_id, self._producer_epoch = answer.producer_id, answer.producer_epoch
        return True

    def _renew(self) -> None:
        """Bump the epoch locally, as Kafka's producers do; or take a new id, as after a restart."""
        self._sequences.clear()
        self._producer_epoch += 1
        if self._random.below(2):
            self._producer_id = -1


def _produce(send: Send, now_ms: int) -> Produce:
    records = [
        Record(n, now_ms, key_of(value), payload(value)) for n, value in enumerate(send.values)
    ]
    batch = build_batch(
        records,
        producer_id=send.producer_id,
        producer_epoch=send.producer_epoch,
        base_sequence=send.sequence,
    )
    return Produce(send.at.topic, send.at.partition, batch, send.acks, PRODUCE_TIMEOUT_MS)
