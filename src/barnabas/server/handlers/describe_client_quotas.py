"""DescribeClientQuotas (48): the quotas that are configured for the entities a filter matches."""

from collections.abc import Sequence

from kio.schema.describe_client_quotas.v1.request import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from kio.schema.describe_client_quotas.v1.response import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.security.client_quotas import QuotaEntity
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE

EXACT, DEFAULT, ANY = 0, 1, 2


def handle(
    broker: Broker, request: DescribeClientQuotasRequest, _: Call
) -> DescribeClientQuotasResponse:
    try:
        _check(request.components)
    except BrokerError as e:
        return DescribeClientQuotasResponse(
            throttle_time=NO_THROTTLE, error_code=e.code, error_message=e.message, entries=None
        )
    return DescribeClientQuotasResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message=None,
        entries=tuple(
            EntryData(
                entity=tuple(
                    EntityData(entity_type=kind, entity_name=name) for kind, name in entity.parts
                ),
                values=tuple(
                    ValueData(key=key, value=value) for key, value in sorted(values.items())
                ),
            )
            for entity, values in broker.client_quotas.quotas.entities.items()
            if _matches(entity, request.components, request.strict)
        ),
    )


def _check(components: Sequence[ComponentData]) -> None:
    kinds = [each.entity_type for each in components]
    for each in components:
        if each.entity_type not in ("user", "client-id", "ip"):
            raise BrokerError(
                ErrorCode.unsupported_version, f"Custom entity type '{each.entity_type}'"
            )
        if each.match_type not in (EXACT, DEFAULT, ANY) or (
            (each.match_type == EXACT) != (each.match is not None)
        ):
            raise BrokerError(ErrorCode.invalid_request, "Unexpected match type or match")
    if len(set(kinds)) < len(kinds):
        raise BrokerError(ErrorCode.invalid_request, "Duplicate entity filter component")
    if "ip" in kinds and len(kinds) > 1:
        raise BrokerError(
            ErrorCode.invalid_request,
            "Invalid entity filter component combination, ip with user or client-id",
        )


def _matches(entity: QuotaEntity, components: Sequence[ComponentData], strict: bool) -> bool:
    parts = dict(entity.parts)
    if strict and parts.keys() != {each.entity_type for each in components}:
        return False
    return all(
        each.entity_type in parts
        and (each.match_type == ANY or parts[each.entity_type] == each.match)
        for each in components
    )
