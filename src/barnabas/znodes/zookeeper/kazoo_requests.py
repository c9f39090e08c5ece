"""Translation of operations, results and errors between the interface and kazoo."""

from collections.abc import Sequence
from typing import Any, Final

from kazoo import exceptions as kazoo_errors
from kazoo.protocol import serialization as requests
from kazoo.protocol.states import EventType, ZnodeStat

from barnabas.znodes.tree import (
    BadVersion,
    CheckVersion,
    ConnectionLoss,
    CreateNode,
    DeleteNode,
    EventKind,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Result,
    SessionExpired,
    SetData,
    Stat,
    ZnodeError,
)
from barnabas.znodes.zookeeper.zookeeper_security import ZooKeeperSecurity


class UnsupportedByServer(ZnodeError):
    """The server is too old for the request."""


EVENT_KINDS: Final[dict[Any, EventKind]] = {
    EventType.CREATED: EventKind.CREATED,
    EventType.CHANGED: EventKind.CHANGED,
    EventType.DELETED: EventKind.DELETED,
    EventType.CHILD: EventKind.CHILDREN,
}
_ERRORS: Final[dict[type[Exception], type[ZnodeError]]] = {
    kazoo_errors.NodeExistsError: NodeExists,
    kazoo_errors.NoNodeError: NoNode,
    kazoo_errors.BadVersionError: BadVersion,
    kazoo_errors.NotEmptyError: NotEmpty,
    kazoo_errors.NoChildrenForEphemeralsError: NoChildrenForEphemerals,
    kazoo_errors.SessionExpiredError: SessionExpired,
    kazoo_errors.ConnectionClosedError: SessionExpired,
    kazoo_errors.ConnectionLoss: ConnectionLoss,
    # Another server has the session, or the server was too busy: a retry settles both.
    kazoo_errors.SessionMovedError: ConnectionLoss,
    kazoo_errors.OperationTimeoutError: ConnectionLoss,
    kazoo_errors.UnimplementedError: UnsupportedByServer,
}
# The header of each read within ReadMany, which sets no watch.
_READ_HEAD: Final = requests.multiheader_struct.pack(requests.GetData.type, False, -1)
_END: Final = requests.multiheader_struct.pack(-1, True, -1)
_FAILED: Final = -1
_read_buffer: Final[Any] = requests.read_buffer
_EPHEMERAL: Final = 1
_SEQUENTIAL: Final = 2


class Chroot(str):
    """The root of a session's tree on the server: a path without a trailing slash, or ""."""

    def full(self, path: str) -> str:
        """The server's path of the session's `path`."""
        return self + path if path != "/" else str(self) or "/"

    def inside(self, full_path: str) -> str:
        """The session's path of the server's `full_path`."""
        return full_path[len(self) :] or "/"


class ReadMany:
    """Reads of many nodes in one request: ZooKeeper has it since 3.6, kazoo does not."""

    type = 22

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def serialize(self) -> bytes:
        return b"".join([*map(_read_of, self._paths), _END])

    @classmethod
    def deserialize(cls, answer: bytes, offset: int) -> list[tuple[bytes | None, Any] | Exception]:
        found: list[tuple[bytes | None, Any] | Exception] = []
        while True:
            kind, done, _ = requests.multiheader_struct.unpack_from(answer, offset)
            offset += requests.multiheader_struct.size
            if done:
                return found
            if kind == _FAILED:
                (code,) = requests.int_struct.unpack_from(answer, offset)
                offset += requests.int_struct.size
                found.append(kazoo_errors.EXCEPTIONS[code]())
            else:
                data, offset = _read_buffer(answer, offset)
                stat = ZnodeStat._make(requests.stat_struct.unpack_from(answer, offset))
                offset += requests.stat_struct.size
                found.append((data, stat))


def _read_of(path: str) -> bytes:
    read: Any = requests.GetData(path, None)
    return _READ_HEAD + bytes(read.serialize())


def nodes_of(paths: Sequence[str], answers: Sequence[Any]) -> list[tuple[bytes, Stat] | None]:
    """The nodes that ReadMany found, None for a missing one. Raises the error of a failed read."""
    found: list[tuple[bytes, Stat] | None] = []
    for path, answer in zip(paths, answers, strict=True):
        if isinstance(answer, kazoo_errors.NoNodeError):
            found.append(None)
        elif isinstance(answer, Exception):
            raise error_of(path, answer)
        else:
            found.append((answer[0] or b"", stat_of(answer[1])))
    return found


def request_of(operation: Operation, chroot: Chroot, security: ZooKeeperSecurity) -> Any:
    """One operation of a transaction, as kazoo's request."""
    path = chroot.full(operation.path)
    match operation:
        case CreateNode(_, data, ephemeral, sequential):
            flags = _EPHEMERAL * ephemeral | _SEQUENTIAL * sequential
            return requests.Create(path, data or None, security.acl_of(operation.path), flags)
        case SetData(_, data, version):
            return requests.SetData(path, data or None, version)
        case DeleteNode(_, version):
            return requests.Delete(path, version)
        case CheckVersion(_, version):
            return requests.CheckVersion(path, version)


def results_of(operations: Sequence[Operation], answers: list[Any], chroot: Chroot) -> list[Result]:
    """The results of a transaction. Raises the error of the operation that failed."""
    for operation, answer in zip(operations, answers, strict=True):
        failed = isinstance(answer, kazoo_errors.KazooException)
        if failed and not isinstance(answer, kazoo_errors.RolledBackError):
            raise error_of(operation.path, answer)
    return [_result(answer, chroot) for answer in answers]


def _result(answer: Any, chroot: Chroot) -> Result:
    match answer:
        case str():
            return chroot.inside(answer)
        case ZnodeStat():
            return stat_of(answer)
        case _:
            return None


def stat_of(stat: ZnodeStat) -> Stat:
    return Stat(
        czxid=stat.czxid,
        mzxid=stat.mzxid,
        version=stat.version,
        cversion=stat.cversion,
        ephemeral_owner=stat.ephemeralOwner,
        num_children=stat.numChildren,
        data_length=stat.dataLength,
    )


def error_of(path: str, error: Exception) -> ZnodeError:
    """The interface's error for one of kazoo's; a plain ZnodeError for an unknown one."""
    known = _ERRORS.get(type(error))
    return known(path) if known else ZnodeError(path, repr(error))
