"""The last seen state of watched nodes, to detect the events missed during a disconnect.

A server forgets the watches of a lost connection, and kazoo does not restore them.
After a reconnect every watched node is read again (which sets the watch again) and
compared with its last seen state.
"""

from typing import NamedTuple, Protocol, TypeAlias

from barnabas.znodes.tree import EventKind, WatchEvent


class ServerStat(Protocol):
    """The fields of a server's Stat that the comparison needs."""

    @property
    def czxid(self) -> int: ...
    @property
    def mzxid(self) -> int: ...
    @property
    def pzxid(self) -> int: ...


class _Seen(NamedTuple):
    """The transactions that created the node and last changed its watched part."""

    created: int
    changed: int


_Table: TypeAlias = dict[str, _Seen | None]


class LastSeen:
    """The last seen state of every watched node; None if it did not exist."""

    def __init__(self) -> None:
        self._data: _Table = {}
        self._children: _Table = {}

    @property
    def data_paths(self) -> list[str]:
        return list(self._data)

    @property
    def children_paths(self) -> list[str]:
        return list(self._children)

    def saw_data(self, path: str, stat: ServerStat | None) -> None:
        self._data[path] = _data_of(stat)

    def saw_children(self, path: str, stat: ServerStat) -> None:
        self._children[path] = _Seen(stat.czxid, stat.pzxid)

    def forget(self, event: WatchEvent) -> None:
        """Forget the nodes whose watches this event fires."""
        if event.kind is not EventKind.CHILDREN:
            self._data.pop(event.path, None)
        if event.kind in (EventKind.CHILDREN, EventKind.DELETED):
            self._children.pop(event.path, None)

    def clear(self) -> None:
        self._data.clear()
        self._children.clear()

    def missed_data(self, path: str, stat: ServerStat | None) -> WatchEvent | None:
        """The first event that a watch on the node's data missed, or None."""
        if path not in self._data:
            return None
        before, now = self._data[path], _data_of(stat)
        if before is None:
            return WatchEvent(EventKind.CREATED, path) if now else None
        return _difference(path, before, now, EventKind.CHANGED)

    def missed_children(self, path: str, stat: ServerStat | None) -> WatchEvent | None:
        """The first event that a watch on the node's children missed, or None."""
        before = self._children.get(path)
        now = _Seen(stat.czxid, stat.pzxid) if stat else None
        return _difference(path, before, now, EventKind.CHILDREN) if before else None


def _data_of(stat: ServerStat | None) -> _Seen | None:
    return _Seen(stat.czxid, stat.mzxid) if stat else None


def _difference(
    path: str, before: _Seen, now: _Seen | None, changed: EventKind
) -> WatchEvent | None:
    if now is None or now.created != before.created:
        return WatchEvent(EventKind.DELETED, path)
    return None if now == before else WatchEvent(changed, path)
