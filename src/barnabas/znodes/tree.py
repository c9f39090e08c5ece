"""The interface of a coordination tree, ZooKeeper's or the embedded one: nodes, watches, sessions.

The errors, and the state of the tree after each:

    ZnodeError                      carries the node's path
    ├── NodeExists                  the node to create exists; nothing changed
    ├── NoNode                      the node, or the parent to create it in, is missing; unchanged
    ├── BadVersion                  the node has another data version; nothing changed
    ├── NotEmpty                    the node to delete has children; nothing changed
    ├── NoChildrenForEphemerals     the parent to create a node in is ephemeral; nothing changed
    ├── SessionExpired              the session and its ephemeral nodes are gone; nothing changed
    ├── ConnectionLoss              the response was lost: the change may have been made or not
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
    """An operation on the coordination tree failed; `path` is the node's."""

    def __init__(self, path: str, detail: str = "") -> None:
        super().__init__(f"{path}: {detail}" if detail else path)
        self.path = path


class NodeExists(ZnodeError):
    """The node to create exists."""


class NoNode(ZnodeError):
    """The node, or the parent of the node to create, does not exist."""


class BadVersion(ZnodeError):
    """The node's data version is not the expected one."""


class NotEmpty(ZnodeError):
    """The node to delete has children."""


class NoChildrenForEphemerals(ZnodeError):
    """The parent of the node to create is ephemeral."""


class SessionExpired(ZnodeError):
    """The session has expired; `renew` begins another."""


class ConnectionLoss(ZnodeError):
    """The connection was lost before the response; a read shows whether the change was made."""


class MalformedZnode(ZnodeError):
    """The node's value is not in Kafka's format."""


@dataclass(frozen=True, slots=True)
class Stat:
    """A node's metadata, in ZooKeeper's terms.

    czxid and mzxid are the transactions that created and last set it; version
    counts its sets, cversion the children created and deleted; ephemeral_owner is
    the session that owns an ephemeral node, or 0.
    """

    czxid: int
    mzxid: int
    version: int
    cversion: int
    ephemeral_owner: int
    num_children: int
    data_length: int


class CreateNode(NamedTuple):
    """Create a node; results in its path, with the number of a sequential node."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


class SetData(NamedTuple):
    """Replace a node's data; results in its new Stat."""

    path: str
    data: bytes
    version: int = ANY_VERSION


class DeleteNode(NamedTuple):
    """Delete a node without children; results in None."""

    path: str
    version: int = ANY_VERSION


class CheckVersion(NamedTuple):
    """Fail the whole transaction if the node has another version; results in None."""

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
    """A change of the node at `path`; its current value has to be read."""

    kind: EventKind
    path: str


class SessionState(Enum):
    """The assumption that the owner of a session may make.

    CONNECTED   its ephemeral nodes exist and its watches fire
    SUSPENDED   unknown: calls raise ConnectionLoss until it is connected or expired
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
    in the parent nodes that Kafka creates. The writes of all sessions have one order;
    each is atomic, and durable when it returns.

    A watch is a callback for one event: `get` and `exists` watch a node's data
    (CREATED, CHANGED, DELETED), `children` its list of children (CHILDREN,
    DELETED). Watches fire on the event loop, in the order of the transactions,
    each before any read of this session shows its change. A read that raises sets
    no watch; the same callback is set once per node. Watches and listeners must
    not block.
    """

    @property
    def session_id(self) -> int:
        """The owner of ephemeral nodes created now; never 0."""
        ...

    @property
    def state(self) -> SessionState: ...

    def listen(self, listener: StateListener, /) -> None:
        """Call `listener` with every later state, in order with the watches."""
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
        """Create a node and return its path; a sequential one gets ten digits appended.

        `make_parents` first creates missing ancestors, persistent and without data.

        Raises  NodeExists, NoNode (no parent), NoChildrenForEphemerals
        """
        ...

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        """The node's data and Stat. Raises NoNode."""
        ...

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        """Each node's data and Stat, None for a missing one; many cost little more than one.

        Each is read as by `get`, not all in one transaction.
        """
        ...

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """The node's Stat, or None; sets the watch also on a node that does not exist yet."""
        ...

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """The names of a node's children, sorted. Raises NoNode."""
        ...

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Replace the node's data. Raises NoNode, BadVersion."""
        ...

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete the node. Raises NoNode, BadVersion, NotEmpty."""
        ...

    async def multi(self, operations: Sequence[Operation], /) -> list[Result]:
        """Commit all operations as one transaction, or none; each sees those before it.

        Raises the error of the first operation that fails; `path` is that operation's.
        """
        ...

    async def renew(self) -> None:
        """Begin a new session after this one expired, in the same object.

        It has no watches and no ephemeral nodes. Listeners stay and receive CONNECTED.
        """
        ...

    async def close(self) -> None:
        """End the session; on return its ephemeral nodes are gone. Listeners are not called."""
        ...


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or ROOT


def name_of(path: str) -> str:
    return path.rpartition("/")[2]


class InvalidPath(ValueError):
    """A name in the path is empty, `.` or `..`: one that a client chose, or a bug of the caller."""


def check_path(path: str) -> None:
    """Raises InvalidPath unless `path` is a valid path."""
    if path == ROOT:
        return
    if not path.startswith("/") or any(part in ("", ".", "..") for part in path[1:].split("/")):
        raise InvalidPath(f"{path!r} is not the path of a znode")


def check_operation(operation: Operation) -> None:
    """Raises ValueError, a bug of the caller, for an operation that no tree supports."""
    check_path(operation.path)
    if isinstance(operation, DeleteNode) and operation.path == ROOT:
        raise ValueError("the root of the tree cannot be deleted")
