"""AlterClientQuotas (49): sets and removes quotas, each entity on its own."""

from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest
from kio.schema.alter_client_quotas.v1.request import EntryData as Wanted
from kio.schema.alter_client_quotas.v1.response import (
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.server.broker import Broker
from barnabas.server.cluster.quota_admin import Change, read_entity
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE


async def handle(
    broker: Broker, request: AlterClientQuotasRequest, _: Call
) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        throttle_time=NO_THROTTLE,
        entries=tuple(
            [await _alter(broker, each, request.validate_only) for each in request.entries]
        ),
    )


async def _alter(broker: Broker, wanted: Wanted, validate_only: bool) -> EntryData:
    code, message = ErrorCode.none, None
    try:
        entity = read_entity([(each.entity_type, each.entity_name) for each in wanted.entity])
        changes = [Change(op.key, None if op.remove else op.value) for op in wanted.ops]
        await broker.client_quotas.alter(entity, changes, validate_only=validate_only)
    except BrokerError as e:
        code, message = e.code, e.message
    return EntryData(
        error_code=code,
        error_message=message,
        entity=tuple(
            EntityData(entity_type=each.entity_type, entity_name=each.entity_name)
            for each in wanted.entity
        ),
    )
