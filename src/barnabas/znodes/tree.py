"""What Barnabas asks of a coordination tree, ZooKeeper's or its own: nodes, watches, sessions.

What can go wrong, and what the tree looks like then:

    ZnodeError                      carries the path it is about
    ├── NodeExists                  a create found its node there already; nothing changed
    ├── NoNode                      the node, or a create's parent, is not there; nothing changed
    ├── BadVersion                  the node has another data version; nothing changed
    ├── NotEmpty                    a delete found children; nothing changed
    ├── NoChildrenForEphemerals     a create's parent is ephemeral; nothing changed
    ├── SessionExpired              this session and its ephemeral nodes are gone; nothing changed
    ├── ConnectionLoss              the answer was lost: the change may or may not have happened
    └── MalformedZnode              the value is not what Kafka writes there

The journal of the embedded tree adds JournalDamaged (see journal.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, Protocol, TypeAlias

from barnabas.base.errors import BarnabasError

ROOT: Final = "/"
ANY_VERSION: Final = -1


class ZnodeError(BarnabasError):
    """An operation on the coordination tree failed; `path` says on which node."""

    def __init__(self, path: str, detail: str = "") -> None:
        super().__init__(f"{path}: {detail}" if detail else path)
        self.path = path


class NodeExists(ZnodeError):
    """The node to create is there already."""


class NoNode(ZnodeError):
    """The node, or the parent of the node to create, is not there."""


class BadVersion(ZnodeError):
    """The node's data version is not the expected one."""


class NotEmpty(ZnodeError):
    """The node to delete has children."""


class NoChildrenForEphemerals(ZnodeError):
    """The parent of the node to create is ephemeral."""


class SessionExpired(ZnodeError):
    """The session is over; `renew` begins another."""


class ConnectionLoss(ZnodeError):
    """The connection broke before the answer came; reading tells whether the change happened."""


class MalformedZnode(ZnodeError):
    """The value of the node cannot be read as what Kafka keeps there."""


@dataclass(frozen=True, slots=True)
class Stat:
    """What the tree knows of a node beside its data, in ZooKeeper's terms.

    czxid and mzxid are the transactions that created and last set it; version
    counts its sets, cversion the children made and removed; ephemeral_owner is
    the session it dies with, or 0.
    """

    czxid: int
    mzxid: int
    version: int
    cversion: int
    ephemeral_owner: int
    num_children: int
    data_length: int


class CreateNode(NamedTuple):
    """Make a node; answers with its path, which a sequential node learns only so."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


class SetData(NamedTuple):
    """Replace a node's data; answers with its new Stat."""

    path: str
    data: bytes
    version: int = ANY_VERSION


class DeleteNode(NamedTuple):
    """Remove a node that has no children; answers None."""

    path: str
    version: int = ANY_VERSION


class CheckVersion(NamedTuple):
    """Change nothing, but fail the whole transaction if the version is another; answers None."""

    path: str
    version: int


Operation: TypeAlias = CreateNode | SetData | DeleteNode | CheckVersion
Result: TypeAlias = str | Stat | None


class EventKind(Enum):
    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    CHILDREN = "children"


class WatchEvent(NamedTuple):
    """Something happened to the node at `path`; what it is now must be read."""

    kind: EventKind
    path: str


class SessionState(Enum):
    """What the owner of a session may still assume.

    CONNECTED   its ephemeral nodes stand and its watches fire
    SUSPENDED   it cannot know: calls raise ConnectionLoss until it is connected or expired
    EXPIRED     its ephemeral nodes and watches are gone; calls raise SessionExpired until `renew`
    """

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    EXPIRED = "expired"


Watch: TypeAlias = Callable[[WatchEvent], None]
StateListener: TypeAlias = Callable[[SessionState], None]


class Coordination(Protocol):
    """One session with a coordination tree.

    Paths are absolute, without a trailing slash. Empty data is ZooKeeper's null, as
    in the folders that Kafka makes. Writes of all sessions form one order; each is
    all or nothing, and durable when it returns.

    A watch is a callback for one event: `get` and `exists` watch a node's data
    (CREATED, CHANGED, DELETED), `children` its list of children (CHILDREN,
    DELETED). Watches are called on the event loop, in the order of the
    transactions, each before any read of this session shows what it tells of. A
    read that raises leaves no watch; the same callback waits once per node.
    Watches and listeners only take note: they must not block.
    """

    @property
    def session_id(self) -> int:
        """The owner of the ephemeral nodes made now; never 0."""
        ...

    @property
    def state(self) -> SessionState: ...

    def listen(self, listener: StateListener, /) -> None:
        """Tell `listener` of every later state, in order with the watches."""
        ...

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        make_parents: bool = False,
    ) -> str:
        """Make a node and return its path; a sequential one gets ten digits appended.

        `make_parents` first makes what is missing above it, persistent and without data.

        Raises  NodeExists, NoNode (no parent), NoChildrenForEphemerals
        """
        ...

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        """Raises NoNode."""
        ...

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        """What each node has, None where there is none; many cost little more than one.

        Each is read as by `get`: they may change between one and the next.
        """
        ...

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """Leaves the watch also where there is no node yet."""
        ...

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """The names below a node, sorted. Raises NoNode."""
        ...

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Raises NoNode, BadVersion."""
        ...

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Raises NoNode, BadVersion, NotEmpty."""
        ...

    async def multi(self, operations: Sequence[Operation], /) -> list[Result]:
        """Do all operations as one transaction, each seeing those before it, or none.

        Raises what the first failing operation would; its `path` tells which it was.
        """
        ...

    async def renew(self) -> None:
        """Begin a new session after this one expired: no watches, no ephemeral nodes, same object.

        Listeners stay and hear CONNECTED.
        """
        ...

    async def close(self) -> None:
        """End the session; its ephemeral nodes are gone when this returns, its listeners silent."""
        ...


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or ROOT


def name_of(path: str) -> str:
    return path.rpartition("/")[2]


def check_path(path: str) -> None:
    """Raises ValueError, a bug of the caller, unless `path` can name a node."""
    if path == ROOT:
        return
    if not path.startswith("/") or any(part in ("", ".", "..") for part in path[1:].split("/")):
        raise ValueError(f"{path!r} is not the path of a znode")


def check_operation(operation: Operation) -> None:
    """Raises ValueError, a bug of the caller, for what no tree can do."""
    check_path(operation.path)
    if isinstance(operation, DeleteNode) and operation.path == ROOT:
        raise ValueError("the root of the tree cannot be deleted")
