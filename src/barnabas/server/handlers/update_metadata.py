"""UpdateMetadata (6): the cluster metadata that every broker returns to its clients."""

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.server.broker import ControlledParts
from barnabas.server.requests.dispatch import Call
from barnabas.wire.control.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse


async def handle(
    broker: ControlledParts, request: UpdateMetadataRequest, _: Call | None
) -> UpdateMetadataResponse:
    # Asked first: nothing may come between the checks and what rests on them.
    await broker.configs.know_topics([topic.topic_name for topic in request.topic_states])
    try:
        broker.registration.check_epoch(request.broker_epoch)
        broker.partitions.check_controller(request.controller_epoch)
    except BrokerError as e:
        return UpdateMetadataResponse(error_code=e.code)
    updated = broker.metadata.apply(request)
    gone = [topic.name for topic in updated.gone]
    for name in gone:
        broker.configs.forget_topic(name)
    broker.topics.metadata_changed((*updated.topics, *gone))
    broker.groups.on_metadata(updated)
    broker.features.on_metadata()
    return UpdateMetadataResponse(error_code=ErrorCode.none)
