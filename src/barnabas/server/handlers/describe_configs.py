"""DescribeConfigs (32): every property of a topic or broker, its value and where that came from.

A resource that is named twice is in the response once: a short request would have a huge response.
"""

from typing import Final

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.turns import Turns
from barnabas.config.config_key import ConfigEntry
from barnabas.security.acls import Operation as Acl
from barnabas.server.broker import Broker
from barnabas.server.cluster.config_admin import Resource
from barnabas.server.requests.config_access import check_config
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE

# A topic has some forty properties, a broker two hundred: a few of them for each turn of the loop.
_WEIGHT: Final = 200


async def handle(
    broker: Broker, request: DescribeConfigsRequest, call: Call
) -> DescribeConfigsResponse:
    turns = Turns()
    named = {(each.resource_type, each.resource_name): each for each in request.resources}
    return DescribeConfigsResponse(
        throttle_time=NO_THROTTLE,
        results=tuple(
            [
                _resource(
                    broker, resource, request.include_synonyms, request.include_documentation, call
                )
                async for resource in turns.each(named.values(), _WEIGHT)
            ]
        ),
    )


def _resource(
    broker: Broker, asked: DescribeConfigsResource, synonyms: bool, documentation: bool, call: Call
) -> DescribeConfigsResult:
    # Clients expect an empty message, not none, where all is well.
    code, message, entries = ErrorCode.none, "", ()
    try:
        check_config(call.access, Acl.DESCRIBE_CONFIGS, asked.resource_type, asked.resource_name)
        wanted = frozenset(asked.configuration_keys or ())
        resource = Resource(asked.resource_type, asked.resource_name)
        entries = tuple(
            _entry(entry, synonyms, documentation)
            for entry in broker.config_admin.describe(resource)
            if not wanted or entry.name in wanted
        )
    except BrokerError as e:
        code, message = e.code, str(e)
    return DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=entries,
    )


def _entry(
    entry: ConfigEntry, synonyms: bool, documentation: bool
) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=int(entry.source),
        is_sensitive=entry.sensitive,
        synonyms=tuple(
            DescribeConfigsSynonym(name=s.name, value=s.value, source=int(s.source))
            for s in (entry.synonyms if synonyms else ())
        ),
        config_type=int(entry.type),
        documentation=entry.documentation if documentation else None,
    )
