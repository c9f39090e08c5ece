"""Faults of transactions for tests: one that hangs, and a coordinator that dies in a phase."""

import asyncio
from typing import Final

from barnabas.base.clock import machine_stopwatch
from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.base.ids import TopicPartition
from barnabas.client.async_client import AsyncClient
from barnabas.client.coordinator import TRANSACTION, CoordinatorRefused, find_coordinator
from barnabas.client.metadata import Metadata, fields
from barnabas.client.retries import RetriableError
from barnabas.replication.leader.leader_replica import LeaderReplica
from barnabas.server.broker import Broker
from barnabas.testing.broker_thread import BrokerThread
from barnabas.testing.misuse import Misuse, NotInTime
from barnabas.transactions.transaction_state import TransactionState
from barnabas.wire.apis import ApiKey
from barnabas.wire.records.batch import read_header
from barnabas.wire.records.records import Record, build_batch

# Far beyond the producer ids that a cluster gives out in a test.
HANGING_PRODUCER: Final = 1 << 60
_LOOK_S: Final = 0.005
_ANSWER_S: Final = 3.0
_NS_PER_S: Final = 1e9


def check_state(state: str) -> None:
    """Raises  Misuse, if Kafka has no such state of a transaction"""
    known = [each.value for each in TransactionState]
    if state not in known:
        raise Misuse(f"there is no state {state} of a transaction: choose {', '.join(known)}")


def hang(leader: BrokerThread, at: TopicPartition) -> int:
    """Append a record of a transaction at the leader, past all checks; return its offset."""

    def append(broker: Broker) -> int:
        replica = broker.replicas.get(at)
        if not isinstance(replica, LeaderReplica):
            raise Misuse(f"the leader of {at.topic}:{at.partition} changed meanwhile; try again")
        batch = build_batch(
            [Record(0, broker.clock.now_ms(), None, b"hanging")],
            producer_id=HANGING_PRODUCER + replica.log.log_end_offset,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        now_ms = broker.clock.now_ms()
        guard = replica.log.producers.verifications.begin(
            read_header(batch).producer_id, 0, 0, now_ms, is_epoch_bumped=False
        )
        return replica.append(memoryview(batch), now_ms, guard=guard).base_offset

    return leader.ask(append).result()


def wait_for_state(bootstrap: str, transactional_id: str, state: str, timeout_s: float) -> str:
    """The address of the coordinator that has the id in this state.

    Raises  NotInTime, with the state at the end
    """
    return asyncio.run(_wait_for_state(bootstrap, transactional_id, state, timeout_s))


async def _wait_for_state(
    bootstrap: str, transactional_id: str, state: str, timeout_s: float
) -> str:
    brokers = [each.rpartition(":") for each in bootstrap.split(",")]
    metadata = Metadata([(host, int(port)) for host, _, port in brokers])
    client = AsyncClient("barnabas-testing", connect_s=_ANSWER_S, request_s=_ANSWER_S)
    deadline = machine_stopwatch() + timeout_s * _NS_PER_S
    last = "unknown"
    request = fields(transactional_ids=(transactional_id,))
    try:
        while machine_stopwatch() < deadline:
            try:
                found = find_coordinator(metadata, transactional_id, TRANSACTION)
                host, port = await client.run(found)
                answer = await client.ask_at((host, port), ApiKey.DESCRIBE_TRANSACTIONS, request)
                (described,) = answer.transaction_states
                if described.error_code is ErrorCode.none:
                    last = described.transaction_state
                if last == state:
                    return f"{host}:{port}"
            except (PeerGone, RetriableError, CoordinatorRefused) as gone:
                last = str(gone)
            await asyncio.sleep(_LOOK_S)
    finally:
        client.close()
    raise NotInTime(f"{transactional_id} is not {state} within {timeout_s:g} s: it is {last}")
