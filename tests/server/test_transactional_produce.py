"""Produce with transactional batches: what is refused, and what is verified."""

import asyncio
import datetime
from importlib import import_module
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from barnabas.base.errors import ErrorCode as Code
from barnabas.base.ids import TopicPartition
from barnabas.replication.replicas import LATE_AFTER_MS
from barnabas.server.requests.replies import Pending, Work
from barnabas.server.transactions.partition_verification import Asked, decide_outlived, joint
from barnabas.server.transactions.transactional_produce import (
    TransactionalProduce,
    produce_error,
    transactional_headers,
)
from barnabas.wire.apis import ApiKey
from barnabas.wire.produce.produce_codec import read_produce
from barnabas.wire.schema import request_type
from tests.server.api_requests import of
from tests.server.raw import (
    NOW,
    Insight,
    RawClient,
    Scenario,
    batch,
    broker,
    on_uvloop,
    request,
    until,
    with_broker,
)
from tests.server.test_authorization import ask

ID = "writer"


def produce(
    *partitions: tuple[str, int, bytes], version: int = 11, transactional_id: str | None = ID
) -> bytes:
    schema: Any = import_module(f"kio.schema.produce.v{version}.request")
    topics = tuple(
        schema.TopicProduceData(
            name=topic,
            partition_data=(schema.PartitionProduceData(index=index, records=records),),
        )
        for topic, index, records in partitions
    )
    message = schema.ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout=datetime.timedelta(milliseconds=1000),
        topic_data=topics,
    )
    return request(ApiKey.PRODUCE, version, message)


def with_coordinator(folder: Path, scenario: Scenario, **properties: Any) -> None:
    """A broker that also coordinates: its timers stay to its end."""

    async def run() -> None:
        async with broker(folder, **properties) as insight:

            async def is_at_rest() -> None:
                for client in insight.clients:
                    await client.close()

            vars(insight)["is_at_rest"] = is_at_rest
            await scenario(insight)

    on_uvloop(run())


def codes(response: Any) -> list[ErrorCode]:
    return [p.error_code for topic in response.responses for p in topic.partition_responses]


async def coordinator(insight: Insight, client: RawClient) -> None:
    """Wait until the coordinator of the id is found: its topic is created."""
    find: Any = import_module("kio.schema.find_coordinator.v4.request")
    message = find.FindCoordinatorRequest(key_type=1, coordinator_keys=(ID,))
    while True:
        found = await client.ask(request(ApiKey.FIND_COORDINATOR, 4, message))
        if found.coordinators[0].error_code is ErrorCode.none:
            return


async def producer(insight: Insight, client: RawClient) -> tuple[int, int]:
    """The producer id and epoch of the transactional id."""
    await coordinator(insight, client)
    init: Any = import_module("kio.schema.init_producer_id.v4.request")
    message = init.InitProducerIdRequest(
        transactional_id=ID,
        transaction_timeout=datetime.timedelta(seconds=60),
        producer_id=-1,
        producer_epoch=-1,
    )
    while True:
        made = await client.ask(request(ApiKey.INIT_PRODUCER_ID, 4, message))
        if made.error_code is ErrorCode.none:
            return made.producer_id, made.producer_epoch


async def add(client: RawClient, pid: int, epoch: int, topic: str) -> None:
    schema: Any = import_module("kio.schema.add_partitions_to_txn.v3.request")
    message = schema.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=ID,
        v3_and_below_producer_id=pid,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=(schema.AddPartitionsToTxnTopic(name=topic, partitions=(0,)),),
    )
    assert isinstance(message, request_type(ApiKey.ADD_PARTITIONS_TO_TXN, 3))
    answer = await client.ask(request(ApiKey.ADD_PARTITIONS_TO_TXN, 3, message))
    (result,) = answer.results_by_topic_v3_and_below
    assert result.results_by_partition[0].partition_error_code is ErrorCode.none


def written(pid: int, epoch: int, sequence: int = 0, **options: Any) -> bytes:
    return batch(
        b"one",
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=sequence,
        **{"transactional": True, **options},
    )


def test_t29_a_transaction_has_an_id_and_one_producer(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("t")
        await insight.create("u")
        client = await insight.connect()
        nameless = produce(("t", 0, written(1, 0)), transactional_id=None)
        assert codes(await client.ask(nameless)) == [
            ErrorCode.transactional_id_authorization_failed
        ]
        two = produce(("t", 0, written(1, 0)), ("u", 0, written(2, 0)))
        assert codes(await client.ask(two)) == [ErrorCode.invalid_producer_id_mapping] * 2
        assert insight.leader("t").log.log_end_offset == 0

    with_broker(tmp_path, scenario)


def test_t29_a_control_batch_of_a_client_is_refused(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("t")
        client = await insight.connect()
        control = produce(("t", 0, written(1, 0, control=True)))
        assert codes(await client.ask(control)) == [ErrorCode.invalid_record]
        assert insight.leader("t").log.log_end_offset == 0

    with_broker(tmp_path, scenario, transaction_partition_verification_enable="false")


def test_t29_no_plain_write_amid_the_producers_transaction(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("t")
        client = await insight.connect()
        pid, epoch = await producer(insight, client)
        await add(client, pid, epoch, "t")
        assert codes(await client.ask(produce(("t", 0, written(pid, epoch))))) == [ErrorCode.none]
        plain = written(pid, epoch, 1, transactional=False)
        refused = await client.ask(produce(("t", 0, plain), transactional_id=None))
        assert codes(refused) == [ErrorCode.invalid_txn_state]

    with_coordinator(tmp_path, scenario)


@pytest.mark.parametrize(
    ("version", "code"),
    [(10, ErrorCode.invalid_txn_state), (11, ErrorCode.transaction_abortable)],
)
def test_t30_a_partition_that_was_not_added_is_not_written(
    tmp_path: Path, version: int, code: ErrorCode
) -> None:
    """T32: the code depends on what the client knows."""

    async def scenario(insight: Insight) -> None:
        await insight.create("t")
        await insight.create("u")
        client = await insight.connect()
        pid, epoch = await producer(insight, client)
        await add(client, pid, epoch, "u")
        refused = await client.ask(produce(("t", 0, written(pid, epoch)), version=version))
        assert codes(refused) == [code]
        assert insight.leader("t").log.log_end_offset == 0
        await add(client, pid, epoch, "t")
        for sequence in range(3):
            asked = produce(("t", 0, written(pid, epoch, sequence)), version=version)
            assert codes(await client.ask(asked)) == [ErrorCode.none]

    with_coordinator(tmp_path, scenario)


def test_t30_version_12_adds_the_partition(tmp_path: Path) -> None:
    """KIP-890, part 2."""

    async def scenario(insight: Insight) -> None:
        await insight.create("t")
        client = await insight.connect()
        pid, epoch = await producer(insight, client)
        asked = produce(("t", 0, written(pid, epoch)), version=12)
        assert codes(await client.ask(asked)) == [ErrorCode.none]
        assert insight.leader("t").log.producers.has_ongoing(pid, epoch)

    with_coordinator(tmp_path, scenario)


async def end(client: RawClient, pid: int, epoch: int) -> None:
    schema: Any = import_module("kio.schema.end_txn.v1.request")
    message = schema.EndTxnRequest(
        transactional_id=ID, producer_id=pid, producer_epoch=epoch, committed=True
    )
    ended = await client.ask(request(ApiKey.END_TXN, 1, message))
    assert ended.error_code is ErrorCode.none


def test_a_transaction_on_one_replica_needs_no_task_and_no_request_for_its_marker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later: list[str] = []
    answer = Work.answer

    def noted(self: Work, pending: Pending, what: str, making: Any) -> Pending:
        later.append(what.split()[0])
        return answer(self, pending, what, making)

    monkeypatch.setattr(Work, "answer", noted)

    async def scenario(insight: Insight) -> None:
        await insight.create("t")
        client = await insight.connect()
        pid, epoch = await producer(insight, client)
        later.clear()
        await add(client, pid, epoch, "t")
        assert codes(await client.ask(produce(("t", 0, written(pid, epoch))))) == [ErrorCode.none]
        await end(client, pid, epoch)
        await until(lambda: insight.leader("t").log.log_end_offset == 2)
        assert later == []

    with_coordinator(tmp_path, scenario)


def test_t30_verification_can_be_switched_off(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("t")
        client = await insight.connect()
        answer = await client.ask(produce(("t", 0, written(5, 0))))
        assert codes(answer) == [ErrorCode.none]

    with_broker(tmp_path, scenario, transaction_partition_verification_enable="false")


def test_t30_verification_is_switched_while_a_broker_runs(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("t")
        client, admin = await insight.connect(), await insight.connect()
        await coordinator(insight, client)
        verification = insight.running.broker.verification

        async def switch(enabled: bool) -> None:
            name, value = "transaction.partition.verification.enable", str(enabled).lower()
            config = of(name=name, config_operation=0, value=value)
            changed = of(resource_type=4, resource_name="", configs=(config,))
            await ask(admin, ApiKey.INCREMENTAL_ALTER_CONFIGS, of(resources=(changed,)))
            await until(lambda: verification.is_enabled == enabled)

        for enabled, code in (
            (True, ErrorCode.transaction_abortable),
            (False, ErrorCode.none),
            (True, ErrorCode.transaction_abortable),
        ):
            await switch(enabled)
            pid, epoch = await producer(insight, client)
            assert codes(await client.ask(produce(("t", 0, written(pid, epoch))))) == [code]

    with_coordinator(tmp_path, scenario)


def test_t32_without_a_coordinator_the_producer_tries_again(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("t")
        client = await insight.connect()
        answer = await client.ask(produce(("t", 0, written(5, 0))))
        assert codes(answer) == [ErrorCode.not_enough_replicas]
        assert insight.leader("t").log.log_end_offset == 0

    with_broker(tmp_path, scenario)


@pytest.mark.parametrize("version", [9, 11])
def test_t32_codes_that_may_pass_are_retriable(version: int) -> None:
    for code in (
        Code.concurrent_transactions,
        Code.network_exception,
        Code.coordinator_load_in_progress,
        Code.coordinator_not_available,
        Code.not_coordinator,
        Code.operation_not_attempted,
    ):
        assert produce_error(code, version) is Code.not_enough_replicas
    assert produce_error(Code.concurrent_transactions, 12) is Code.concurrent_transactions
    assert produce_error(Code.invalid_producer_epoch, version) is Code.invalid_producer_epoch


def test_t32_a_partition_that_is_led_here_only_after_the_question_is_tried_again(
    tmp_path: Path,
) -> None:
    """Its leader of now has no guard for it, and the transaction is not at fault."""

    async def scenario(insight: Insight) -> None:
        await insight.create("t")
        client = await insight.connect()
        pid, epoch = await producer(insight, client)
        parts = insight.running.broker
        frame = memoryview(produce(("t", 0, written(pid, epoch)), ("u", 0, written(pid, epoch))))
        asked = read_produce(11, frame, bytes(frame).index(b"writer") - 1)
        transactional = TransactionalProduce(parts.replicas, parts.clock, parts.verification)
        begun = transactional.begin(11, asked, transactional_headers(asked))
        await insight.create("u")
        codes = await transactional.verify(begun)
        assert codes[TopicPartition("u", 0)] is Code.unknown_topic_or_partition
        assert codes[TopicPartition("t", 0)] is Code.transaction_abortable

    with_coordinator(tmp_path, scenario)


def test_t34_of_two_questions_about_one_id_the_higher_epoch_wins() -> None:
    old, new = Asked(ID, 1, 3, ()), Asked(ID, 1, 4, ())
    assert decide_outlived(old, new) is Code.invalid_producer_epoch
    assert decide_outlived(new, old) is None
    # The epochs of one producer id say nothing about another one.
    for one, other in permutations([Asked(ID, 1, 32766, ()), Asked(ID, 2, 0, ())]):
        assert decide_outlived(one, other) is Code.network_exception


def test_t34_questions_about_one_transaction_are_one() -> None:
    first, second = (Asked(ID, 1, 3, (TopicPartition("t", n),)) for n in (0, 1))
    both = (*first.partitions, *second.partitions)
    assert joint(first, second) == first._replace(partitions=both)
    assert joint(first, first) == first
    for other in (Asked(ID, 2, 3, both), Asked(ID, 1, 4, both), Asked(ID, 1, 3, both, adds=True)):
        assert joint(first, other) is None


@pytest.mark.parametrize("version", [11, 12])
def test_requests_in_flight_together_are_all_served(tmp_path: Path, version: int) -> None:
    """A producer has several connections, for records and offsets: none costs it a back-off."""

    async def scenario(insight: Insight) -> None:
        clients = [await insight.connect() for _ in range(5)]
        pid, epoch = await producer(insight, clients[0])
        for n, client in enumerate(clients):
            await insight.create(f"t{n}")
            await add(client, pid, epoch, f"t{n}")
        answers = await asyncio.gather(
            *(
                client.ask(produce((f"t{n}", 0, written(pid, epoch)), version=version))
                for n, client in enumerate(clients)
            )
        )
        assert [codes(answer) for answer in answers] == [[ErrorCode.none]] * 5

    with_coordinator(tmp_path, scenario)


def test_a_question_right_after_an_answer_is_sent_too(tmp_path: Path) -> None:
    """Also in the turn of the loop in which the queue of the coordinator ran empty."""

    async def scenario(insight: Insight) -> None:
        await coordinator(insight, await insight.connect())
        asked = Asked(ID, 1, 0, (TopicPartition("t", 0),))
        async with asyncio.timeout(10):
            for _ in range(2):
                await insight.running.broker.verification.ask(asked)

    with_coordinator(tmp_path, scenario)


def test_t35_a_transaction_that_should_have_ended_long_ago_is_late(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("t")
        client = await insight.connect()
        assert codes(await client.ask(produce(("t", 0, written(5, 0))))) == [ErrorCode.none]
        replicas = insight.running.broker.replicas
        assert replicas.late_transactions(NOW + 900_000, 900_000) == 0
        assert replicas.late_transactions(NOW + 900_000 + LATE_AFTER_MS + 10, 900_000) == 1

    with_broker(tmp_path, scenario, transaction_partition_verification_enable="false")
