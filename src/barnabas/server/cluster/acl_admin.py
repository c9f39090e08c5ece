"""The ACLs in the coordination tree: read, changed by compare-and-set, and followed."""

import logging
from collections.abc import Awaitable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.safeguards import IN_FORCE, Safeguards
from barnabas.security.acls import (
    Acl,
    AclFilter,
    Entry,
    InvalidAcl,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    check_acl,
)
from barnabas.security.authorizer import Authorizer
from barnabas.server.cluster.change_notifications import ChangeNotifications, notify
from barnabas.server.cluster.tree_errors import coordinating
from barnabas.server.fetching.fetch_sessions import FetchSessions
from barnabas.server.network.open_connections import OpenConnections
from barnabas.znodes import acl_layout
from barnabas.znodes.acl_layout import AclFields, AclResource
from barnabas.znodes.tree import (
    BadVersion,
    Coordination,
    MalformedZnode,
    NodeExists,
    NoNode,
)

log = logging.getLogger("barnabas.acls")

# How often a change is tried again that another broker's change came between.
MOST_ATTEMPTS: Final = 10
Entries = frozenset[Entry]
_NO_ENTRIES: Final[Entries] = frozenset()


class AclAdmin:
    """Keeps the authorizer's ACLs equal to the tree's.

    A change drops every decision of before, and whatever was derived from them: the requests that
    connections serve by shortcut, and the partitions of fetches that rest.
    """

    def __init__(
        self,
        coordination: Coordination,
        authorizer: Authorizer,
        connections: OpenConnections,
        sessions: FetchSessions,
        safeguards: Safeguards = IN_FORCE,
    ) -> None:
        self._coordination = coordination
        self._authorizer = authorizer
        self._connections = connections
        self._sessions = sessions
        self._safeguards = safeguards
        self._notifications = [
            ChangeNotifications(coordination, root, self)
            for root in (acl_layout.ACL_CHANGES, acl_layout.EXTENDED_ACL_CHANGES)
        ]

    async def start(self) -> None:
        """Watch for changes, then read all ACLs; also again, in a new session."""
        for path in acl_layout.ACL_PATHS:
            if await self._coordination.exists(path) is None:
                with suppress(NodeExists):  # brokers start side by side
                    await self._coordination.create(path, make_parents=True)
        for each in self._notifications:
            await each.start()
        await self._load()

    async def stop(self) -> None:
        for each in self._notifications:
            await each.stop()

    async def on_change(self, path: str, data: bytes, /) -> None:
        """See `Receiver`."""
        pattern = _pattern(acl_layout.decode_acl_change(path, data))
        self._apply(pattern, (await self._read(pattern))[0])

    async def _load(self) -> None:
        found: dict[ResourcePattern, Entries] = {}
        for is_prefix, root in ((False, acl_layout.ACL), (True, acl_layout.PREFIXED_ACL)):
            for kind in acl_layout.RESOURCE_TYPES:
                for name in await self._coordination.children(f"{root}/{kind}"):
                    pattern = _pattern(AclResource(kind, name, is_prefix))
                    found[pattern] = (await self._read(pattern))[0]
        self._authorizer.cache.replace_all(found)
        self._on_changed()

    async def _read(self, pattern: ResourcePattern) -> tuple[Entries, int | None]:
        """The entries in the tree, and the version of their znode; None if there is none."""
        path = acl_layout.acl_path(_resource(pattern))
        try:
            data, stat = await self._coordination.get(path)
        except NoNode:
            return frozenset(), None
        try:
            return _entries(path, acl_layout.decode_acls(path, data)), stat.version
        except MalformedZnode as e:
            # Nobody is let in by what cannot be read: what denied may be in it.
            log.error("unreadable ACLs, the resource is closed to all but super users: %s", e)
            return frozenset({_DENY_ALL}), stat.version

    def _apply(self, pattern: ResourcePattern, entries: Entries) -> None:
        if entries != self._authorizer.cache.entries(pattern):
            self._authorizer.cache.replace(pattern, entries)
            self._on_changed()

    def _on_changed(self) -> None:
        if not self._safeguards.acl_invalidation:
            return
        self._authorizer.forget()
        self._sessions.stir_all()
        self._connections.forget_shortcuts()

    def find(self, wanted: AclFilter) -> list[Acl]:
        return self._authorizer.cache.find(wanted)

    # -- changing ------------------------------------------------------------

    async def create(self, acls: Sequence[Acl]) -> list[BrokerError | None]:
        """Add ACLs; returns what each failed with, or None."""
        results: list[BrokerError | None] = [None] * len(acls)
        by_pattern: dict[ResourcePattern, list[int]] = {}
        for number, acl in enumerate(acls):
            try:
                check_acl(acl)
                by_pattern.setdefault(acl.resource, []).append(number)
            except InvalidAcl as e:
                results[number] = BrokerError(ErrorCode.invalid_request, str(e))
        for pattern, numbers in by_pattern.items():
            added = frozenset(acls[number].entry for number in numbers)
            error = await self._failure(self._update(pattern, added=added))
            for number in numbers:
                results[number] = error
        return results

    async def delete(self, filters: Sequence[AclFilter]) -> list[dict[Acl, BrokerError | None]]:
        """Remove what each filter matches; an ACL counts for the first filter that does."""
        results: list[dict[Acl, BrokerError | None]] = [{} for _ in filters]
        claimed: dict[Acl, int] = {}
        for acl in self._authorizer.cache:
            for number, wanted in enumerate(filters):
                if wanted.matches(acl):
                    claimed[acl] = number
                    break
        by_pattern: dict[ResourcePattern, list[Acl]] = {}
        for acl in claimed:
            by_pattern.setdefault(acl.resource, []).append(acl)
        for pattern, acls in by_pattern.items():
            gone = frozenset(acl.entry for acl in acls)
            error = await self._failure(self._update(pattern, removed=gone))
            for acl in acls:
                results[claimed[acl]][acl] = error
        return results

    async def _failure(self, change: Awaitable[None]) -> BrokerError | None:
        try:
            with coordinating():
                await change
        except BrokerError as e:
            return e
        return None

    async def _update(
        self, pattern: ResourcePattern, added: Entries = _NO_ENTRIES, removed: Entries = _NO_ENTRIES
    ) -> None:
        """Change a pattern's entries by compare-and-set. Raises BrokerError, nothing changed."""
        for _ in range(MOST_ATTEMPTS):
            old, version = await self._read(pattern)
            new = (old | added) - removed
            with suppress(BadVersion, NodeExists, NoNode):
                if new != old:
                    await self._write(pattern, new, version)
                break
        else:
            raise BrokerError(ErrorCode.unknown_server_error, f"Failed to update ACLs of {pattern}")
        self._apply(pattern, new)
        if new != old:
            log.info("ACLs changed resource=%s count=%d", pattern, len(new))
            prefix, data = acl_layout.encode_acl_change(_resource(pattern))
            await notify(self._coordination, prefix, data)

    async def _write(self, pattern: ResourcePattern, new: Entries, version: int | None) -> None:
        path = acl_layout.acl_path(_resource(pattern))
        if not new and version is not None:
            await self._coordination.delete(path, version)
        elif version is None:
            await self._coordination.create(path, _encoded(new), make_parents=True)
        else:
            await self._coordination.set(path, _encoded(new), version)


_DENY_ALL: Final = Entry("User:*", "*", Operation.ALL, Permission.DENY)


def _resource(pattern: ResourcePattern) -> AclResource:
    is_prefix = pattern.pattern_type is PatternType.PREFIXED
    return AclResource(pattern.type.text, pattern.name, is_prefix)


def _pattern(resource: AclResource) -> ResourcePattern:
    kind = next(each for each in ResourceType if each.text == resource.type)
    pattern_type = PatternType.PREFIXED if resource.is_prefix else PatternType.LITERAL
    return ResourcePattern(kind, resource.name, pattern_type)


def _encoded(entries: Entries) -> bytes:
    return acl_layout.encode_acls(
        AclFields(each.principal, each.permission.text, each.operation.text, each.host)
        for each in sorted(entries)
    )


def _entries(path: str, fields: Iterable[AclFields]) -> Entries:
    try:
        return frozenset(
            Entry(each.principal, each.host, _OPERATIONS[each.operation.lower()], permission)
            for each in fields
            for permission in [_PERMISSIONS[each.permission_type.lower()]]
        )
    except KeyError as error:
        raise MalformedZnode(path, f"{error} is no operation or permission") from error


_OPERATIONS: Final = {each.text.lower(): each for each in Operation}
_PERMISSIONS: Final = {each.text.lower(): each for each in Permission}
