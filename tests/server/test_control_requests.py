"""Requests of brokers to each other, as Kafka's send them: checked first, answered in its codes."""

import uuid
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import ApiKey
from tests.support.asking import ask, parts
from tests.support.broker import BrokerProcess
from tests.support.confluent_client import ConfluentAdmin

# Every version in which a controller from 2.6 on sends them; all fields are the newest version's.
COMMANDS = [
    *((ApiKey.LEADER_AND_ISR, version) for version in (4, 5, 6, 7)),
    *((ApiKey.STOP_REPLICA, version) for version in (3, 4)),
    *((ApiKey.UPDATE_METADATA, version) for version in (6, 7, 8)),
]
NEWEST = 1_000_000  # an epoch that no controller of a test comes to


@pytest.fixture
def made(broker: BrokerProcess, topic: str) -> Any:
    """A topic of one partition, as the broker's metadata has it."""
    ConfluentAdmin(broker.bootstrap).create_topic(topic)
    return described(broker, topic)


def described(broker: BrokerProcess, topic: str) -> Any:
    wanted = (parts(name=topic, topic_id=None),)
    return ask(broker.port, ApiKey.METADATA, topics=wanted).topics[0]


def command(broker: BrokerProcess, key: ApiKey, version: int, **fields: Any) -> Any:
    empty: dict[str, Any] = {"topic_states": (), "live_leaders": (), "live_brokers": ()}
    return ask(broker.port, key, version, **{"controller_id": 0, **empty, **fields})


@pytest.mark.parametrize(("key", "version"), COMMANDS)
def test_a_controller_of_the_past_is_refused(
    broker: BrokerProcess, key: ApiKey, version: int
) -> None:
    answer = command(broker, key, version, controller_epoch=0)
    assert answer.error_code is ErrorCode.stale_controller_epoch


@pytest.mark.parametrize(("key", "version"), COMMANDS)
def test_what_was_meant_for_the_broker_before_it_started_again_is_refused(
    broker: BrokerProcess, key: ApiKey, version: int
) -> None:
    answer = command(broker, key, version, controller_epoch=NEWEST, broker_epoch=0)
    assert answer.error_code is ErrorCode.stale_broker_epoch
    # Nor does it count that so new a controller was heard of.
    answer = command(broker, key, version, controller_epoch=0)
    assert answer.error_code is ErrorCode.stale_controller_epoch


# AlterPartition


def alter(broker: BrokerProcess, made: Any, version: int, leader_epoch: int, *isr: int) -> Any:
    partition = parts(
        partition_index=0,
        leader_epoch=leader_epoch,
        new_isr=isr,
        new_isr_with_epochs=tuple(parts(broker_id=each, broker_epoch=-1) for each in isr),
        partition_epoch=0,
    )
    topic = parts(topic_id=made.topic_id, topic_name=made.name, partitions=(partition,))
    epoch = registered_epoch(broker)
    fields: dict[str, Any] = {"broker_id": 0, "broker_epoch": epoch, "topics": (topic,)}
    answer = ask(broker.port, ApiKey.ALTER_PARTITION, version, **fields)
    assert answer.error_code is ErrorCode.none
    return answer.topics[0].partitions[0]


def registered_epoch(broker: BrokerProcess) -> int:
    (line,) = [line for line in broker.log().splitlines() if " registered broker=" in line][-1:]
    return int(line.rpartition("=")[2])


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_an_isr_is_granted_only_to_the_leader_of_now(
    broker: BrokerProcess, made: Any, version: int
) -> None:
    granted = alter(broker, made, version, 0, 0)
    assert (granted.error_code, granted.leader_id, granted.isr) == (ErrorCode.none, 0, (0,))
    assert alter(broker, made, version, -1, 0).error_code is ErrorCode.fenced_leader_epoch
    not_alive = ErrorCode.ineligible_replica if version >= 2 else ErrorCode.operation_not_attempted
    assert alter(broker, made, version, 0, 0, 5).error_code is not_alive
    # A broker that knows a later epoch knows another controller.
    assert alter(broker, made, version, 1, 0).error_code is ErrorCode.not_controller
    unknown = parts(topic_id=uuid.UUID(int=9), name="unknown")
    not_there = ErrorCode.unknown_topic_id if version >= 2 else ErrorCode.unknown_topic_or_partition
    assert alter(broker, unknown, version, 0, 0).error_code is not_there


def test_an_isr_asked_for_by_a_broker_before_it_started_again_is_refused(
    broker: BrokerProcess,
) -> None:
    answer = ask(broker.port, ApiKey.ALTER_PARTITION, broker_id=0, broker_epoch=0, topics=())
    assert answer.error_code is ErrorCode.stale_broker_epoch


# AllocateProducerIds, ControlledShutdown


def test_every_block_of_producer_ids_is_given_once(broker: BrokerProcess) -> None:
    fields = {"broker_id": 0, "broker_epoch": registered_epoch(broker)}
    blocks = [ask(broker.port, ApiKey.ALLOCATE_PRODUCER_IDS, **fields) for _ in range(3)]
    assert [block.error_code for block in blocks] == [ErrorCode.none] * 3
    assert [block.producer_id_len for block in blocks] == [1000] * 3
    first = blocks[0].producer_id_start
    assert [block.producer_id_start for block in blocks] == [first, first + 1000, first + 2000]


def test_only_a_broker_that_lives_may_shut_down(broker: BrokerProcess) -> None:
    asked = {"broker_epoch": registered_epoch(broker)}
    unknown = ask(broker.port, ApiKey.CONTROLLED_SHUTDOWN, broker_id=77, **asked)
    assert unknown.error_code is ErrorCode.broker_not_available
    past = ask(broker.port, ApiKey.CONTROLLED_SHUTDOWN, broker_id=0, broker_epoch=0)
    assert past.error_code is ErrorCode.stale_broker_epoch
