"""AlterPartition (56): a leader asks the controller to change its ISR.

Our own leaders write the tree themselves; Kafka's brokers, from 2.7 on, ask here.

Version notes. From version 3 each replica of the new ISR comes with the epoch of its broker.
"""

from kio.schema.alter_partition.v3.request import AlterPartitionRequest
from kio.schema.alter_partition.v3.request import PartitionData as Asked
from kio.schema.alter_partition.v3.response import (
    AlterPartitionResponse,
    PartitionData,
    TopicData,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.context import Led
from barnabas.controller.events import AlterPartition
from barnabas.server.broker import Broker
from barnabas.server.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE


async def handle(
    broker: Broker, request: AlterPartitionRequest, call: Call
) -> AlterPartitionResponse:
    names = {}
    isrs = {}
    for topic in call.sent.topics:
        image = broker.metadata.topic_by_id(topic.topic_id)
        names[topic.topic_id] = None if image is None else image.name
        if image is None:
            continue
        for asked in topic.partitions:
            isrs[TopicPartition(image.name, asked.partition_index)] = (
                asked.leader_epoch,
                asked.partition_epoch,
                _isr(asked, call.version),
            )
    try:
        answers = await broker.controller.ask(
            AlterPartition(BrokerId(request.broker_id), request.broker_epoch, isrs)
        )
    except BrokerError as e:
        return AlterPartitionResponse(throttle_time=NO_THROTTLE, error_code=e.code, topics=())
    return AlterPartitionResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        topics=tuple(
            TopicData(
                topic_id=topic.topic_id,
                partitions=tuple(
                    _answer(names[topic.topic_id], asked.partition_index, answers)
                    for asked in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _isr(asked: Asked, version: int) -> tuple[BrokerId, ...]:
    if version < 3:
        return tuple(map(BrokerId, asked.new_isr))
    return tuple(BrokerId(state.broker_id) for state in asked.new_isr_with_epochs)


def _answer(
    name: str | None, index: int, answers: dict[TopicPartition, Led | ErrorCode]
) -> PartitionData:
    if name is None:
        return _refused(index, ErrorCode.unknown_topic_id)
    answer = answers[TopicPartition(name, index)]
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
