"""The authorizer: Kafka's AclAuthorizer, with every decision cached, and its audit log."""

import logging
from typing import Final, Protocol

from barnabas.security.acl_cache import AclCache
from barnabas.security.acl_decision import AclDecision, Question, Rules, decide, decide_by_type
from barnabas.security.acls import Operation, ResourceType
from barnabas.security.principal import Principal

# Kafka's name, so that its log configuration carries over.
audit = logging.getLogger("kafka.authorizer.logger")
TRACE: Final = 5
# Decisions that are kept; beyond it all are made again.
MOST_DECISIONS: Final = 100_000
# Of names up to this length, which is that of the longest topic's: a client may ask for longer
# ones again and again, and each would be kept.
LONGEST_NAME: Final = 249

# A request, as the audit log names it.
Key = tuple[Principal, str, int, int, str]


class Client(Protocol):
    """The connection that a request comes from."""

    @property
    def principal(self) -> Principal: ...

    @property
    def host(self) -> str: ...


class Authorizer:
    """Decides by the ACLs in `cache`; `forget` must be called when they change."""

    def __init__(self, cache: AclCache, rules: Rules) -> None:
        self.cache = cache
        self.rules = rules
        self._decided: dict[Key, bool] = {}
        # Changes with each change of the ACLs: what was decided before is void.
        self.version = 0

    def forget(self) -> None:
        """Make every decision again: ACLs changed."""
        self._decided.clear()
        self.version += 1

    def authorize(
        self,
        client: Client,
        operation: Operation,
        type_: ResourceType,
        name: str,
        request: str,
        *,
        log_if_allowed: bool = True,
        log_if_denied: bool = True,
        count: int = 1,
    ) -> bool:
        """True if the client may; one look-up if it asked before. Does not suspend."""
        key = (client.principal, client.host, operation, type_, name)
        allowed = self._decided.get(key)
        if allowed is None:
            allowed = self.explain(*key).allowed
            if len(self._decided) >= MOST_DECISIONS:
                self._decided.clear()
            if len(name) <= LONGEST_NAME:
                self._decided[key] = allowed
        level = _level(allowed, log_if_allowed if allowed else log_if_denied)
        if audit.isEnabledFor(level):
            resource = f"{type_.text}:LITERAL:{name}"
            _log(level, client, allowed, operation, resource, request, count)
        return allowed

    def authorize_by_type(
        self, client: Client, operation: Operation, type_: ResourceType, request: str
    ) -> bool:
        """True if the client may on at least one resource of the type."""
        allowed = decide_by_type(
            _text(client.principal), client.host, operation, type_, self.cache, self.rules
        )
        level = _level(allowed, True)
        if audit.isEnabledFor(level):
            resource = f"{type_.text}:UNKNOWN:NONE"
            _log(level, client, allowed, operation, resource, request, 0)
        return allowed

    def explain(
        self, principal: Principal, host: str, operation: Operation, type_: ResourceType, name: str
    ) -> AclDecision:
        """The decision and what it rests on; not cached."""
        question = Question(_text(principal), host, operation, type_, name)
        return decide(question, self.cache, self.rules)


def _text(principal: Principal) -> str:
    return f"{principal.type}:{principal.name}"


def _level(allowed: bool, is_logged: bool) -> int:
    if not is_logged:
        return TRACE
    return logging.DEBUG if allowed else logging.INFO


def _log(
    level: int,
    client: Client,
    allowed: bool,
    operation: Operation,
    resource: str,
    request: str,
    count: int,
) -> None:
    audit.log(
        level,
        "Principal = %s is %s Operation = %s from host = %s on resource = %s for request = %s "
        "with resourceRefCount = %d",
        _text(client.principal),
        "Allowed" if allowed else "Denied",
        operation.text,
        client.host,
        resource,
        request,
        count,
    )
