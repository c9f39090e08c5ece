"""The znodes of the embedded tree, in memory.

`decide` computes a transaction's changes and is pure; `apply` makes them and cannot
fail. The journal is written between the two, and replaying it only applies it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from barnabas.znodes.tree import (
    ANY_VERSION,
    ROOT,
    BadVersion,
    CheckVersion,
    CreateNode,
    DeleteNode,
    EventKind,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Result,
    SetData,
    Stat,
    WatchEvent,
    name_of,
    parent_of,
)

PERSISTENT: Final = 0


class Created(NamedTuple):
    path: str
    data: bytes
    owner: int


class Changed(NamedTuple):
    path: str
    data: bytes


class Deleted(NamedTuple):
    path: str


class Checked(NamedTuple):
    """No change; gives a version check its place among a transaction's results."""

    path: str


Change: TypeAlias = Created | Changed | Deleted | Checked


@dataclass(slots=True)
class Znode:
    """One znode. `created` counts the children ever created, and numbers sequential ones."""

    data: bytes
    czxid: int
    mzxid: int
    version: int = 0
    created: int = 0
    owner: int = PERSISTENT
    children: dict[str, None] = field(default_factory=dict)

    @property
    def stat(self) -> Stat:
        return Stat(
            czxid=self.czxid,
            mzxid=self.mzxid,
            version=self.version,
            # Children created plus children deleted, as in ZooKeeper.
            cversion=2 * self.created - len(self.children),
            ephemeral_owner=self.owner,
            num_children=len(self.children),
            data_length=len(self.data),
        )


class Nodes:
    """The tree of znodes as of transaction `zxid`."""

    def __init__(self) -> None:
        self.zxid = 0
        self._nodes = {ROOT: Znode(data=b"", czxid=0, mzxid=0)}

    def __getitem__(self, path: str) -> Znode:
        """Raises NoNode."""
        try:
            return self._nodes[path]
        except KeyError:
            raise NoNode(path) from None

    def __contains__(self, path: str) -> bool:
        return path in self._nodes

    def __iter__(self) -> Iterator[tuple[str, Znode]]:
        """Every node and its path, parents before children."""
        return iter(sorted(self._nodes.items()))

    def __len__(self) -> int:
        return len(self._nodes)

    def ephemerals(self, owner: int | None = None) -> list[str]:
        """The paths of one session's ephemeral nodes, or of all sessions'."""
        return sorted(
            path
            for path, node in self._nodes.items()
            if node.owner != PERSISTENT and owner in (None, node.owner)
        )

    def missing_parents(self, path: str) -> list[str]:
        """The missing ancestors of `path`, topmost first."""
        missing = []
        while (path := parent_of(path)) not in self._nodes:
            missing.append(path)
        return missing[::-1]

    def decide(self, operations: Sequence[Operation], session_id: int) -> list[Change]:
        """Return the changes that the operations make, each seeing those before it.

        Raises  a ZnodeError for the first operation that fails
        """
        draft = _Draft(self._nodes)
        return [draft.add(operation, session_id) for operation in operations]

    def apply(self, zxid: int, changes: Sequence[Change]) -> list[Result]:
        """Apply one decided transaction; return the result of each operation."""
        self.zxid = zxid
        return [self._apply(zxid, change) for change in changes]

    def restore(self, path: str, node: Znode) -> None:
        """Restore one node of a snapshot; its parent must be restored before."""
        self._nodes[path] = node
        if path != ROOT:
            self._nodes[parent_of(path)].children[name_of(path)] = None

    def _apply(self, zxid: int, change: Change) -> Result:
        match change:
            case Created(path, data, owner):
                self._nodes[path] = Znode(data=data, czxid=zxid, mzxid=zxid, owner=owner)
                parent = self._nodes[parent_of(path)]
                parent.children[name_of(path)] = None
                parent.created += 1
                return path
            case Changed(path, data):
                node = self._nodes[path]
                node.data, node.mzxid, node.version = data, zxid, node.version + 1
                return node.stat
            case Deleted(path):
                del self._nodes[path]
                del self._nodes[parent_of(path)].children[name_of(path)]
        return None


class _Shape(NamedTuple):
    """The fields of a node that decisions need."""

    version: int
    created: int
    children: int
    owner: int


class _Draft:
    """The tree after the operations added so far."""

    def __init__(self, nodes: dict[str, Znode]) -> None:
        self._nodes = nodes
        self._changed: dict[str, _Shape | None] = {}

    def add(self, operation: Operation, session_id: int) -> Change:
        match operation:
            case CreateNode():
                return self._create(operation, session_id)
            case SetData(path, data, version):
                shape = self._expect(path, version)
                self._changed[path] = shape._replace(version=shape.version + 1)
                return Changed(path, data)
            case DeleteNode(path, version):
                if self._expect(path, version).children:
                    raise NotEmpty(path)
                self._delete(path)
                return Deleted(path)
            case CheckVersion(path, version):
                self._expect(path, version)
                return Checked(path)

    def _create(self, operation: CreateNode, session_id: int) -> Created:
        parent_path = parent_of(operation.path)
        parent = self._find(parent_path)
        if parent is None:
            raise NoNode(operation.path, f"no parent {parent_path}")
        if parent.owner != PERSISTENT:
            raise NoChildrenForEphemerals(operation.path)
        path = operation.path + (f"{parent.created:010d}" if operation.sequential else "")
        if self._find(path) is not None:
            raise NodeExists(path)
        owner = session_id if operation.ephemeral else PERSISTENT
        self._changed[path] = _Shape(version=0, created=0, children=0, owner=owner)
        self._changed[parent_path] = parent._replace(
            created=parent.created + 1, children=parent.children + 1
        )
        return Created(path, operation.data, owner)

    def _delete(self, path: str) -> None:
        self._changed[path] = None
        parent = self._find(parent_of(path))
        assert parent is not None, "a node without a parent"
        self._changed[parent_of(path)] = parent._replace(children=parent.children - 1)

    def _find(self, path: str) -> _Shape | None:
        if path in self._changed:
            return self._changed[path]
        node = self._nodes.get(path)
        if node is None:
            return None
        return _Shape(node.version, node.created, len(node.children), node.owner)

    def _expect(self, path: str, version: int) -> _Shape:
        shape = self._find(path)
        if shape is None:
            raise NoNode(path)
        if version not in (ANY_VERSION, shape.version):
            raise BadVersion(path, f"expected version {version}, found {shape.version}")
        return shape


def events_of(change: Change) -> tuple[WatchEvent, ...]:
    """The watch events of a change."""
    match change:
        case Created(path):
            below = WatchEvent(EventKind.CHILDREN, parent_of(path))
            return WatchEvent(EventKind.CREATED, path), below
        case Changed(path):
            return (WatchEvent(EventKind.CHANGED, path),)
        case Deleted(path):
            below = WatchEvent(EventKind.CHILDREN, parent_of(path))
            return WatchEvent(EventKind.DELETED, path), below
        case Checked():
            return ()
