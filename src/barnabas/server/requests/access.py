"""The rights of one request's client, for handlers; and the checks that come before them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, Protocol

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.security.acls import CLUSTER_NAME, SUPPORTED, Operation, ResourceType
from barnabas.security.authorizer import Authorizer, Client
from barnabas.server.requests.api_access import ACCESS, Check, How
from barnabas.server.requests.error_responses import refuse
from barnabas.wire.apis import ApiKey
from barnabas.wire.schema import Message, adapt, response_type

REFUSED: Final = {
    ResourceType.TOPIC: ErrorCode.topic_authorization_failed,
    ResourceType.GROUP: ErrorCode.group_authorization_failed,
    ResourceType.CLUSTER: ErrorCode.cluster_authorization_failed,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.transactional_id_authorization_failed,
    ResourceType.DELEGATION_TOKEN: ErrorCode.delegation_token_authorization_failed,
    ResourceType.USER: ErrorCode.delegation_token_authorization_failed,
}

# The bit field of authorized operations in a response to a client that did not ask for it.
NOT_ASKED: Final = -(2**31)


class Access(Protocol):
    """The rights of the client of a request."""

    def may(
        self,
        operation: Operation,
        type_: ResourceType,
        name: str = CLUSTER_NAME,
        *,
        log_if_allowed: bool = True,
        log_if_denied: bool = True,
    ) -> bool: ...

    def may_any(self, operation: Operation, type_: ResourceType) -> bool:
        """True if it may on at least one resource of the type."""
        ...


class Everything:
    """Without an authorizer everybody may do everything."""

    def may(self, *_: object, **__: object) -> bool:
        return True

    def may_any(self, *_: object) -> bool:
        return True


EVERYTHING: Final = Everything()


class Rights:
    """By the ACLs of now."""

    __slots__ = ("_authorizer", "_client", "_request")

    def __init__(self, authorizer: Authorizer, client: Client, key: ApiKey) -> None:
        self._authorizer = authorizer
        self._client = client
        self._request = ACCESS[key].name

    def may(
        self,
        operation: Operation,
        type_: ResourceType,
        name: str = CLUSTER_NAME,
        *,
        log_if_allowed: bool = True,
        log_if_denied: bool = True,
    ) -> bool:
        return self._authorizer.authorize(
            self._client,
            operation,
            type_,
            name,
            self._request,
            log_if_allowed=log_if_allowed,
            log_if_denied=log_if_denied,
        )

    def may_any(self, operation: Operation, type_: ResourceType) -> bool:
        return self._authorizer.authorize_by_type(self._client, operation, type_, self._request)


def check(access: Access, operation: Operation, type_: ResourceType, name: str) -> None:
    """Raises BrokerError, Kafka's for the type, unless the client may."""
    if not access.may(operation, type_, name):
        raise BrokerError(REFUSED[type_])


def authorized_operations(access: Access, type_: ResourceType, name: str = CLUSTER_NAME) -> int:
    """The operations that the client may do on a resource, as a bit field."""
    return sum(
        1 << operation
        for operation in SUPPORTED[type_]
        if access.may(operation, type_, name, log_if_allowed=False, log_if_denied=False)
    )


def operations_if_asked(is_asked: bool, access: Access, type_: ResourceType, name: str) -> int:
    """The same, for a client that may have left it out."""
    return authorized_operations(access, type_, name) if is_asked else NOT_ASKED


def cluster_operations(access: Access) -> int:
    """Those of the cluster: none, as in Kafka, for a client that may not describe it."""
    may = access.may(Operation.DESCRIBE, ResourceType.CLUSTER)
    return authorized_operations(access, ResourceType.CLUSTER) if may else 0


class Admitted(NamedTuple):
    """A request without what its client has no right to (None: nothing is left), and the rest of
    the response, which says so."""

    sent: Message | None
    refused: Sequence[Message] = ()


def admit(key: ApiKey, version: int, sent: Message, access: Access) -> Admitted:
    """Apply the checks of the API's row that come before its handler. Does not suspend."""
    refused: list[Message] = []
    for each in ACCESS[key].checks:
        code = REFUSED[each.resource]
        if each.how is How.WHOLE:
            if not _may_whole(each, sent, access):
                return Admitted(None, [refuse(key, version, sent, code)])
        elif each.how is How.EACH:
            allowed, denied = _split(each, sent, access)
            if not denied:
                continue
            part = refuse(key, version, replace(sent, **{each.items: denied}), code)
            if part is not None:
                refused.append(part)
            if not allowed:
                return Admitted(None, refused)
            sent = replace(sent, **{each.items: allowed})
    return Admitted(sent, refused)


def _may_whole(each: Check, sent: Message, access: Access) -> bool:
    name = getattr(sent, each.name) if each.name else CLUSTER_NAME
    if name is None:
        return True
    if each.or_cluster is not None and access.may(
        each.or_cluster, ResourceType.CLUSTER, log_if_denied=False
    ):
        return True
    return access.may(each.operation, each.resource, name)


def _split(each: Check, sent: Message, access: Access) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    items = getattr(sent, each.items) or ()
    if each.or_cluster is not None and access.may(
        each.or_cluster, ResourceType.CLUSTER, log_if_denied=False
    ):
        return items, ()
    may = [
        access.may(each.operation, each.resource, getattr(item, each.name) if each.name else item)
        for item in items
    ]
    return (
        tuple(item for item, allowed in zip(items, may, strict=True) if allowed),
        tuple(item for item, allowed in zip(items, may, strict=True) if not allowed),
    )


def joined(key: ApiKey, version: int, response: Message, refused: Sequence[Message]) -> Message:
    """The response, with the parts that say what is refused."""
    if not refused:
        return response
    whole = adapt(response, response_type(key, version))
    for part in refused:
        whole = replace(
            whole,
            **{name: getattr(whole, name) + value for name, value in _arrays(part)},
        )
    return whole


def _arrays(part: Message) -> list[tuple[str, tuple[Any, ...]]]:
    found = ((name, getattr(part, name)) for name in part.__dataclass_fields__)
    return [(name, value) for name, value in found if isinstance(value, tuple) and value]
