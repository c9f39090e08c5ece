"""The embedded coordination tree: in the broker's process, journalled on disk or in memory only.

The sessions of one process share a Tree, so an in-process cluster coordinates as it
would through ZooKeeper. A restart ends every session.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from barnabas.base.offload import InlineOffload, Offload
from barnabas.disk.disk import Disk
from barnabas.znodes.embedded.journal import Journal
from barnabas.znodes.embedded.nodes import (
    Change,
    Nodes,
    events_of,
)
from barnabas.znodes.tree import (
    ANY_VERSION,
    ROOT,
    CreateNode,
    DeleteNode,
    Operation,
    Result,
    SessionExpired,
    SessionState,
    SetData,
    Stat,
    StateListener,
    Watch,
    check_operation,
    check_path,
)
from barnabas.znodes.watches import Watches

Plan: TypeAlias = Callable[[], Sequence[Operation]]


class Tree:
    """The nodes that all sessions of this process share; the composer opens and closes it.

    Transactions are serialised. A session sees a transaction only when it is on
    disk; a transaction whose write failed changed nothing.
    """

    def __init__(
        self,
        nodes: Nodes | None = None,
        journal: Journal | None = None,
        offload: Offload | None = None,
    ) -> None:
        self.nodes = Nodes() if nodes is None else nodes
        self._journal = journal
        self._offload = offload or InlineOffload()
        self._turn = asyncio.Lock()
        self._watches: dict[int, Watches] = {}
        self._last_session_id = 0

    @classmethod
    def open(cls, disk: Disk, offload: Offload) -> "Tree":
        """Read the tree from its directory, or create it; blocks, so call it at startup.

        Raises  JournalDamaged, DiskFault
        """
        return cls.recover(Journal(disk), offload)

    @classmethod
    def recover(cls, journal: Journal, offload: Offload | None = None) -> "Tree":
        """Read a journal and end the sessions that its process left open."""
        nodes = journal.open()
        if orphans := [DeleteNode(path) for path in nodes.ephemerals()]:
            zxid, changes = nodes.zxid + 1, nodes.decide(orphans, session_id=0)
            journal.write(zxid, changes)
            nodes.apply(zxid, changes)
        return cls(nodes, journal, offload)

    def session(self) -> "EmbeddedSession":
        """Begin a session; it is connected at once."""
        return EmbeddedSession(self)

    async def close(self) -> None:
        """Wait for the current transaction and close the journal."""
        async with self._turn:
            if self._journal is not None:
                self._journal.close()

    def join(self, watches: Watches) -> int:
        """Register a session's watches and return its session id."""
        self._last_session_id += 1
        self._watches[self._last_session_id] = watches
        return self._last_session_id

    async def leave(self, session_id: int) -> None:
        """End a session: one transaction deletes its ephemeral nodes."""
        self._watches.pop(session_id).drop()
        await self.commit(
            lambda: [DeleteNode(path) for path in self.nodes.ephemerals(session_id)], 0
        )

    async def commit(self, plan: Plan, session_id: int) -> list[Result]:
        """Commit the operations of `plan`, called at this transaction's turn, as one transaction.

        Raises  a ZnodeError or a DiskFault, the tree unchanged
        """
        # In its own task: if the caller is cancelled during the write, memory must still follow
        # the disk.
        return await asyncio.shield(asyncio.ensure_future(self._commit(plan, session_id)))

    async def _commit(self, plan: Plan, session_id: int) -> list[Result]:
        async with self._turn:
            changes = self.nodes.decide(plan(), session_id)
            if not changes:
                return []
            zxid = self.nodes.zxid + 1
            if self._journal is not None:
                await self._offload(partial(self._write, self._journal, zxid, changes))
            results = self.nodes.apply(zxid, changes)
            for event in (event for change in changes for event in events_of(change)):
                for watches in self._watches.values():
                    watches.notify(event)
            return results

    def _write(self, journal: Journal, zxid: int, changes: list[Change]) -> None:
        # Off the loop; reading the nodes is safe, as no other transaction runs meanwhile.
        if journal.grown:
            journal.compact(self.nodes)
        journal.write(zxid, changes)


class EmbeddedSession:
    """A session with the tree of this process: Coordination without a network.

    It is never suspended, and expires only by `expire` or `close`.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._watches = Watches()
        self._listeners: list[StateListener] = []
        self._id = tree.join(self._watches)
        self._state = SessionState.CONNECTED

    @property
    def session_id(self) -> int:
        return self._id

    @property
    def state(self) -> SessionState:
        return self._state

    def listen(self, listener: StateListener, /) -> None:
        self._listeners.append(listener)

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        make_parents: bool = False,
    ) -> str:
        create = CreateNode(path, data, ephemeral, sequential)

        def plan() -> list[Operation]:
            parents = self._tree.nodes.missing_parents(path) if make_parents else []
            return [*map(CreateNode, parents), create]

        created = (await self._commit([create], plan))[-1]
        assert isinstance(created, str)
        return created

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        await self._before_reading(path)
        node = self._tree.nodes[path]
        self._watches.on_data(path, watch)
        return node.data, node.stat

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        for path in paths:
            check_path(path)
        await self._before_reading(ROOT)
        nodes = self._tree.nodes
        return [(nodes[each].data, nodes[each].stat) if each in nodes else None for each in paths]

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        await self._before_reading(path)
        self._watches.on_data(path, watch)
        return self._tree.nodes[path].stat if path in self._tree.nodes else None

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        await self._before_reading(path)
        node = self._tree.nodes[path]
        self._watches.on_children(path, watch)
        return sorted(node.children)

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        (stat,) = await self._commit([SetData(path, data, version)])
        assert isinstance(stat, Stat)
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._commit([DeleteNode(path, version)])

    async def multi(self, operations: Sequence[Operation], /) -> list[Result]:
        return await self._commit(operations)

    async def renew(self) -> None:
        if self._state is SessionState.EXPIRED:
            self._id = self._tree.join(self._watches)
            self._enter(SessionState.CONNECTED)

    async def expire(self) -> None:
        """End the session as ZooKeeper does after the session timeout."""
        if self._state is SessionState.CONNECTED:
            self._enter(SessionState.EXPIRED)
            await self._tree.leave(self._id)

    async def close(self) -> None:
        self._listeners.clear()
        await self.expire()

    async def _commit(
        self, operations: Sequence[Operation], plan: Plan | None = None
    ) -> list[Result]:
        for operation in operations:
            check_operation(operation)
        session_id = self._id

        def planned() -> Sequence[Operation]:
            self._check_alive(operations[0].path if operations else "/", session_id)
            return plan() if plan else operations

        return await self._tree.commit(planned, session_id)

    async def _before_reading(self, path: str) -> None:
        """Suspend until the watches for all that the tree shows have fired."""
        check_path(path)
        await self._watches.settled()
        self._check_alive(path, self._id)

    def _check_alive(self, path: str, session_id: int) -> None:
        # An operation that waited while the session was renewed belongs to the expired one.
        if self._state is SessionState.EXPIRED or self._id != session_id:
            raise SessionExpired(path, f"session {session_id} is over")

    def _enter(self, state: SessionState) -> None:
        self._state = state
        for listener in self._listeners:
            self._watches.post(listener, state)
