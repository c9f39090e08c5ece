"""Requests about ACLs, and their responses in plain types."""

from collections.abc import Sequence

from barnabas.base.errors import ErrorCode
from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.raw_client import RawClient
from barnabas.client.metadata import fields
from barnabas.client.retries import error_words
from barnabas.security.acl_decision import Rules
from barnabas.security.acls import (
    Acl,
    AclFilter,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from barnabas.wire.apis import ApiKey
from barnabas.wire.schema import Message


async def describe_acls(client: RawClient, wanted: AclFilter) -> list[Acl]:
    answer = await client.ask_controller(ApiKey.DESCRIBE_ACLS, _filter(wanted))
    _check(answer)
    return [
        Acl(
            ResourcePattern(
                ResourceType(each.resource_type),
                each.resource_name,
                PatternType(each.pattern_type),
            ),
            _entry(acl),
        )
        for each in answer.resources
        for acl in each.acls
    ]


async def create_acls(client: RawClient, acls: Sequence[Acl]) -> None:
    """Raises CommandFailed with the first error."""
    request = fields(
        creations=tuple(
            fields(
                resource_type=int(acl.resource.type),
                resource_name=acl.resource.name,
                resource_pattern_type=int(acl.resource.pattern_type),
                principal=acl.entry.principal,
                host=acl.entry.host,
                operation=int(acl.entry.operation),
                permission_type=int(acl.entry.permission),
            )
            for acl in acls
        )
    )
    answer = await client.ask_controller(ApiKey.CREATE_ACLS, request)
    for result in answer.results:
        _check(result)


async def delete_acls(client: RawClient, filters: Sequence[AclFilter]) -> list[Acl]:
    """The ACLs that are removed. Raises CommandFailed with the first error."""
    request = fields(filters=tuple(map(_filter, filters)))
    answer = await client.ask_controller(ApiKey.DELETE_ACLS, request)
    removed = []
    for result in answer.filter_results:
        _check(result)
        for acl in result.matching_acls:
            _check(acl)
            pattern = ResourcePattern(
                ResourceType(acl.resource_type), acl.resource_name, PatternType(acl.pattern_type)
            )
            removed.append(Acl(pattern, _entry(acl)))
    return removed


async def describe_rules(client: RawClient) -> Rules:
    """The authorizer's properties, as far as the broker shows them."""
    controller = (await client.metadata()).controller_id
    resource = fields(resource_type=4, resource_name=str(controller), configuration_keys=None)
    answer = await client.ask(controller, ApiKey.DESCRIBE_CONFIGS, fields(resources=(resource,)))
    values = {each.name: each.value for each in answer.results[0].configs}
    users = (values.get("super.users") or "").split(";")
    return Rules(
        frozenset(user.strip() for user in users if user.strip()),
        values.get("allow.everyone.if.no.acl.found") == "true",
    )


def _filter(wanted: AclFilter) -> Message:
    return fields(
        resource_type_filter=int(wanted.resource_type),
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=int(wanted.pattern_type),
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=int(wanted.operation),
        permission_type=int(wanted.permission),
    )


def _entry(acl: Message) -> Entry:
    return Entry(acl.principal, acl.host, Operation(acl.operation), Permission(acl.permission_type))


def _check(answer: Message) -> None:
    if answer.error_code is not ErrorCode.none:
        raise CommandFailed(answer.error_message or error_words(answer.error_code))
