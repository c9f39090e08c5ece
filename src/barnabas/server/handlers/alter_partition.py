"""AlterPartition (56): a leader asks the controller to change its ISR.

Our own leaders write the tree themselves; Kafka's brokers, from 2.7 on, ask here.

Version notes. Version 1 says whether the leader recovers from an unclean election; version 2
has ids of topics instead of names, and a code of its own for replicas that are not alive. From
version 3 each replica of the new ISR comes with the epoch of its broker.
"""

from dataclasses import replace
from typing import Final

from kio.schema.alter_partition.v3.request import AlterPartitionRequest
from kio.schema.alter_partition.v3.response import (
    AlterPartitionResponse,
    PartitionData,
    TopicData,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.context import PartitionLeadership
from barnabas.controller.events import AlterPartition, RequestedIsr
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.wire.control.alter_partition import (
    AlterPartitionResponseV1,
    NamedPartitionAnswer,
    NamedTopicAnswer,
)
from barnabas.wire.schema import NO_THROTTLE, Message, adapt

RECOVERY_SINCE: Final = 1
IDS_SINCE: Final = 2


async def handle(
    broker: Broker, request: AlterPartitionRequest, call: Call
) -> AlterPartitionResponse | AlterPartitionResponseV1:
    named = [(_name(broker, topic, call.version), topic) for topic in call.sent.topics]
    isrs = {
        TopicPartition(name, asked.partition_index): _wish(asked, call.version)
        for name, topic in named
        if name is not None
        for asked in topic.partitions
    }
    try:
        answers = await broker.controller.ask(
            AlterPartition(BrokerId(request.broker_id), request.broker_epoch, isrs)
        )
    except BrokerError as e:
        return AlterPartitionResponse(throttle_time=NO_THROTTLE, error_code=e.code, topics=())
    if call.version < IDS_SINCE:
        return AlterPartitionResponseV1(
            error_code=ErrorCode.none,
            topics=tuple(
                NamedTopicAnswer(
                    topic_name=topic.topic_name,
                    partitions=tuple(
                        _as_before_ids(answer) for answer in _answers(name, topic, answers)
                    ),
                )
                for name, topic in named
            ),
        )
    return AlterPartitionResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        topics=tuple(
            TopicData(topic_id=topic.topic_id, partitions=_answers(name, topic, answers))
            for name, topic in named
        ),
    )


def _name(broker: Broker, topic: Message, version: int) -> str | None:
    if version < IDS_SINCE:
        name: str = topic.topic_name
        return name
    image = broker.metadata.topic_by_id(topic.topic_id)
    return None if image is None else image.name


def _wish(asked: Message, version: int) -> RequestedIsr:
    return RequestedIsr(
        asked.leader_epoch,
        asked.partition_epoch,
        _isr(asked, version),
        bool(version >= RECOVERY_SINCE and asked.leader_recovery_state),
    )


def _isr(asked: Message, version: int) -> tuple[BrokerId, ...]:
    if version < 3:
        return tuple(map(BrokerId, asked.new_isr))
    return tuple(BrokerId(state.broker_id) for state in asked.new_isr_with_epochs)


def _answers(
    name: str | None, topic: Message, answers: dict[TopicPartition, PartitionLeadership | ErrorCode]
) -> tuple[PartitionData, ...]:
    return tuple(
        _refused(asked.partition_index, ErrorCode.unknown_topic_id)
        if name is None
        else _answer(asked.partition_index, answers[TopicPartition(name, asked.partition_index)])
        for asked in topic.partitions
    )


def _as_before_ids(answer: PartitionData) -> NamedPartitionAnswer:
    named: NamedPartitionAnswer = adapt(answer, NamedPartitionAnswer)
    if named.error_code is ErrorCode.ineligible_replica:
        return replace(named, error_code=ErrorCode.operation_not_attempted)
    return named


def _answer(index: int, answer: PartitionLeadership | ErrorCode) -> PartitionData:
    if isinstance(answer, ErrorCode):
        return _refused(index, answer)
    return PartitionData(
        partition_index=index,
        error_code=ErrorCode.none,
        leader_id=answer.state.leader,
        leader_epoch=answer.state.leader_epoch,
        isr=answer.state.isr,
        leader_recovery_state=int(answer.state.recovering),
        partition_epoch=answer.version,
    )


def _refused(index: int, code: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=code,
        leader_id=BrokerId(0),
        leader_epoch=0,
        isr=(),
        leader_recovery_state=0,
        partition_epoch=0,
    )
