"""The coordination tree on ZooKeeper: one session, over kazoo, for the event loop.

kazoo keeps the connection and reconnects for ever; its thread passes responses and
events through one mailbox (kazoo_thread.py). This module adds the interface's view
of a session. An expired session stays expired until `renew`, which starts another
kazoo client. A session that lost its connection is CONNECTED again only after its
watches are set again and those that missed an event have fired (last_seen.py), in
no particular order, as the server does not report it.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

from kazoo import exceptions as kazoo_errors
from kazoo.protocol.states import KazooState, WatchedEvent

from barnabas.base.errors import ConfigError
from barnabas.znodes.tree import (
    ANY_VERSION,
    ROOT,
    ConnectionLoss,
    CreateNode,
    DeleteNode,
    NodeExists,
    NoNode,
    Operation,
    Result,
    SessionExpired,
    SessionState,
    SetData,
    Stat,
    StateListener,
    Watch,
    WatchEvent,
    check_operation,
    check_path,
    parent_of,
)
from barnabas.znodes.watches import Watches
from barnabas.znodes.zookeeper.kazoo_requests import (
    EVENT_KINDS,
    Chroot,
    ReadMany,
    UnsupportedByServer,
    error_of,
    nodes_of,
    request_of,
    results_of,
    stat_of,
)
from barnabas.znodes.zookeeper.kazoo_thread import Mailbox, Reply
from barnabas.znodes.zookeeper.last_seen import LastSeen
from barnabas.znodes.zookeeper.zookeeper_connection import ZooKeeperConnection
from barnabas.znodes.zookeeper.zookeeper_security import OPEN, ZooKeeperSecurity

log = logging.getLogger("barnabas.zookeeper")

Keeper: TypeAlias = Callable[[int, bytes], None]


async def connect(
    address: str,
    *,
    session_timeout_ms: int,
    connection_timeout_ms: int,
    security: ZooKeeperSecurity = OPEN,
) -> "ZooKeeperSession":
    """Begin a session with the servers at `host:port,host:port/chroot`; create the chroot.

    Raises  ConnectionLoss, nothing left behind, if no server responds in time
            ConfigError for an invalid address
    """
    hosts, _, below = address.partition("/")
    chroot = f"/{below.strip('/')}"
    session = ZooKeeperSession(hosts, session_timeout_ms, security)
    try:
        check_path(chroot)
        async with asyncio.timeout(connection_timeout_ms / 1000):
            await session.renew()
            if security.username:
                await session.exists(ROOT)  # fails if the server refuses the login
            if chroot != ROOT:
                await session.enter(chroot)
    except ValueError as error:
        raise ConfigError(f"{address} is not a ZooKeeper address: {error}") from None
    except TimeoutError:
        await session.close()
        detail = f"no ZooKeeper server at {hosts} responded within {connection_timeout_ms} ms"
        raise ConnectionLoss(ROOT, detail) from None
    except BaseException:
        await session.close()
        raise
    return session


class ZooKeeperSession:
    """A session with ZooKeeper. It is expired until `connect` renews it for the first time."""

    def __init__(
        self, hosts: str, session_timeout_ms: int, security: ZooKeeperSecurity = OPEN
    ) -> None:
        self.hosts = hosts
        self._security = security
        self._session_timeout_ms = session_timeout_ms
        self._chroot = Chroot()
        self._mailbox = Mailbox()
        self._watches = Watches()
        self._seen = LastSeen()
        self._listeners: list[StateListener] = []
        self._state = SessionState.EXPIRED
        self._id = 0
        self._connection: ZooKeeperConnection | None = None
        self._ending: list[asyncio.Future[None]] = []
        self._reads_many = True
        self._keeper: Keeper | None = None
        self.is_closed = False  # by `close`, at the server too

    @property
    def session_id(self) -> int:
        return self._id

    @property
    def state(self) -> SessionState:
        return self._state

    def listen(self, listener: StateListener, /) -> None:
        self._listeners.append(listener)

    def keep(self, keeper: Keeper) -> None:
        """Call `keeper` with the session's id and password, and again when another one begins.

        It is called before any request in that session.
        """
        self._keeper = keeper
        if self._connection is not None and self._state is not SessionState.EXPIRED:
            keeper(self._id, self._connection.password)

    async def enter(self, chroot: str) -> None:
        """Create the node if it is missing; all later paths are below it."""
        with suppress(NodeExists):
            await self.create(chroot, make_parents=True)
        self._chroot = Chroot(self._chroot.full(chroot))

    # Reading

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        def note(answer: Any) -> None:
            self._watch_data(path, watch, answer[1])

        data, stat = await self._read(path, "get_async", watch, note)
        return data or b"", stat_of(stat)

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        for path in paths:
            check_path(path)
        connection = self._connected(ROOT)
        if not paths:
            return []
        request = ReadMany([self._chroot.full(path) for path in paths])
        if self._reads_many:
            try:
                answers = await self._answer(ROOT, connection, partial(connection.call, request))
                return nodes_of(paths, answers)
            except UnsupportedByServer:
                # Such a server also closes the connection: do not send the request again.
                self._reads_many = False
        return list(await asyncio.gather(*map(self._find, paths)))

    async def _find(self, path: str) -> tuple[bytes, Stat] | None:
        with suppress(NoNode):
            return await self.get(path)
        return None

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        note = partial(self._watch_data, path, watch)
        stat = await self._read(path, "exists_async", watch, note)
        return None if stat is None else stat_of(stat)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        def note(answer: Any) -> None:
            if watch is not None:
                self._watches.on_children(path, watch)
                self._seen.saw_children(path, answer[1])

        names, _ = await self._read(path, "get_children_async", watch, note, include_data=True)
        return sorted(names)

    def _watch_data(self, path: str, watch: Watch | None, stat: Any) -> None:
        if watch is not None:
            self._watches.on_data(path, watch)
            self._seen.saw_data(path, stat)

    async def _read(
        self,
        path: str,
        method: str,
        watch: Watch | None,
        note: Callable[[Any], None],
        **options: bool,
    ) -> Any:
        check_path(path)
        connection = self._connected(path)
        # kazoo gets one watch per node; `_watches` has the callbacks behind it.
        fired = None if watch is None else self._on_event
        request = partial(getattr(connection.client, method), self._chroot.full(path), fired)
        return await self._answer(path, connection, partial(request, **options), note)

    # Writing: every change is a transaction, for ZooKeeper too

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        make_parents: bool = False,
    ) -> str:
        create, parents = CreateNode(path, data, ephemeral, sequential), list[str]()
        while True:
            try:
                created = (await self.multi([*map(CreateNode, parents), create]))[-1]
            except NodeExists as error:
                if error.path not in parents:
                    raise
            except NoNode:
                if not make_parents:
                    raise
            else:
                assert isinstance(created, str)
                return created
            # Others may create and delete nodes meanwhile: look again.
            parents = await self._missing_parents(path)

    async def _missing_parents(self, path: str) -> list[str]:
        missing: list[str] = []
        while (path := parent_of(path)) != ROOT and await self.exists(path) is None:
            missing.append(path)
        return missing[::-1]

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        (stat,) = await self.multi([SetData(path, data, version)])
        assert isinstance(stat, Stat)
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self.multi([DeleteNode(path, version)])

    async def multi(self, operations: Sequence[Operation], /) -> list[Result]:
        for operation in operations:
            check_operation(operation)
        path = operations[0].path if operations else ROOT
        connection = self._connected(path)
        if not operations:
            return []
        transaction = connection.client.transaction()
        transaction.operations += [
            request_of(each, self._chroot, self._security) for each in operations
        ]
        answers = await self._answer(path, connection, transaction.commit_async)
        return results_of(operations, answers, self._chroot)

    async def protect(self, path: str) -> None:
        """Give a node that exists the ACL of a new one."""
        connection = self._connected(path)
        acl = self._security.acl_of(path)
        request = partial(connection.client.set_acls_async, self._chroot.full(path), acl)
        await self._answer(path, connection, request)

    # The session

    async def renew(self) -> None:
        """Suspends until a server responds; a caller that is cancelled may call it again.

        Raises  SessionExpired if the session is closed meanwhile
        """
        if self._state is not SessionState.EXPIRED:
            return
        if self._connection is None:
            self._connection = ZooKeeperConnection(
                self.hosts,
                self._session_timeout_ms,
                self._mailbox,
                self._on_state,
                self._security,
            )
            self._connection.client.start_async()
        connection = self._connection
        await connection.settled.wait()
        if connection is not self._connection:
            raise SessionExpired(ROOT, "closed before it began")

    async def close(self) -> None:
        self._listeners.clear()
        is_connected = self._state is SessionState.CONNECTED
        self.is_closed |= is_connected
        self._end(gently=is_connected)
        if self._ending:
            await asyncio.wait(self._ending)

    def _connected(self, path: str) -> ZooKeeperConnection:
        """Raises SessionExpired, ConnectionLoss."""
        if self._state is SessionState.EXPIRED or self._connection is None:
            raise SessionExpired(path, f"session {self._id:#x} is over")
        if self._state is SessionState.SUSPENDED:
            raise ConnectionLoss(path, "not connected")
        return self._connection

    async def _answer(
        self,
        path: str,
        connection: ZooKeeperConnection,
        request: Callable[[], Reply],
        note: Callable[[Any], None] | None = None,
    ) -> Any:
        """Return kazoo's response; `note` receives it first, in order with the watches."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def receive(answer: Any, error: Exception | None) -> None:
            if error is None and note is not None:
                note(answer)
            # kazoo reports the state later; the caller must not see this error before the state.
            if isinstance(error, kazoo_errors.ConnectionLoss):
                self._on_state(connection, KazooState.SUSPENDED)
            if future.done():
                return  # the caller was cancelled
            if error is None:
                future.set_result(answer)
            else:
                future.set_exception(error)

        connection.ask(path, request).receiver = receive
        try:
            return await future
        except kazoo_errors.KazooException as error:
            raise error_of(path, error) from None

    def _on_event(self, event: WatchedEvent) -> None:
        # kazoo also fires all watches when the connection is lost; listeners report that.
        if event.type in EVENT_KINDS:
            self._notify(WatchEvent(EVENT_KINDS[event.type], self._chroot.inside(event.path)))

    def _notify(self, event: WatchEvent) -> None:
        self._seen.forget(event)
        self._watches.notify(event)

    def _on_state(self, connection: ZooKeeperConnection, state: str) -> None:
        if connection is not self._connection:
            return
        if state == KazooState.SUSPENDED:
            self._enter(SessionState.SUSPENDED)
        elif state == KazooState.LOST:
            self._end(gently=False)
        elif self._state is SessionState.EXPIRED:
            self._id = connection.session_id
            if self._keeper is not None:
                self._keeper(self._id, connection.password)
            self._enter(SessionState.CONNECTED)
            connection.settled.set()
        else:
            self._catch_up(connection)

    def _enter(self, state: SessionState) -> None:
        if state is not self._state:
            log.info("zookeeper session=%#x state=%s", self._id, state.value)
            self._state = state
            for listener in self._listeners:
                self._watches.post(listener, state)

    def _end(self, *, gently: bool) -> None:
        """Drop the connection and all that belonged to its session; a no-op without one."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        self._watches.drop()
        self._seen.clear()
        self._enter(SessionState.EXPIRED)
        still_ending = [each for each in self._ending if not each.done()]
        self._ending = [*still_ending, connection.end(gently=gently)]
        connection.settled.set()

    # After a reconnect

    def _catch_up(self, connection: ZooKeeperConnection) -> None:
        """Set all watches again and fire those that missed an event; then enter CONNECTED.

        If the connection is lost meanwhile, the next one starts over.
        """
        data, children = self._seen.data_paths, self._seen.children_paths
        awaited = len(data) + len(children)

        def arrived(event: WatchEvent | None) -> None:
            nonlocal awaited
            if event is not None:
                self._notify(event)
            awaited -= 1
            if not awaited:
                self._enter(SessionState.CONNECTED)

        def saw_data(path: str, stat: Any, error: Exception | None) -> None:
            if not _was_cut_off(error):
                arrived(self._seen.missed_data(path, stat))

        def saw_children(path: str, answer: Any, error: Exception | None) -> None:
            if not _was_cut_off(error):
                stat = None if error else answer[1]
                arrived(self._seen.missed_children(path, stat))

        if not awaited:
            self._enter(SessionState.CONNECTED)
        client, full, fired = connection.client, self._chroot.full, self._on_event
        with suppress(ConnectionLoss):
            for path in data:
                request = partial(client.exists_async, full(path), fired)
                connection.ask(path, request).receiver = partial(saw_data, path)
            for path in children:
                request = partial(client.get_children_async, full(path), fired, include_data=True)
                connection.ask(path, request).receiver = partial(saw_children, path)


def _was_cut_off(error: Exception | None) -> bool:
    return isinstance(error, kazoo_errors.ConnectionLoss | kazoo_errors.SessionExpiredError)
