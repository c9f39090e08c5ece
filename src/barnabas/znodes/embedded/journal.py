"""The journal of the embedded tree: one file with a snapshot and the transactions since.

Each line is `<crc32c> <length> <JSON>`, CRC and length in eight hexadecimal digits:

    ["barnabas-znodes", 1, zxid, nodes]                       first: the snapshot's header
    [path, data, czxid, mzxid, version, created, owner]       one per node, parents first
    [zxid, [["+", path, data, owner], ["=", path, data], ["-", path]]]
                                                              one per transaction after it

UTF-8 data is written as text; other bytes are escaped as lone surrogates.
A line is fsynced before any session sees its transaction. So a crash can damage
only the last line, which no session has seen: it is dropped. A bad line followed
by a good one is corruption; the file is left unchanged for the operator.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from barnabas.base.checksum import crc32c
from barnabas.base.errors import BarnabasError, ConfigError, DiskFault
from barnabas.disk.disk import DataFile, Disk
from barnabas.znodes.embedded.nodes import Change, Changed, Checked, Created, Deleted, Nodes, Znode

FILE: Final = "znodes.journal"
MAGIC: Final = "barnabas-znodes"
FORMAT: Final = 1
_HEAD_SIZE: Final = len("00000000 00000000 ")


class JournalDamaged(BarnabasError):
    """The journal is corrupt and was not changed. The message names file and offset."""

    def __init__(self, file: str, offset: int, what: str) -> None:
        super().__init__(f"{file} is damaged at byte {offset}: {what}")
        self.file = file
        self.offset = offset


class Journal:
    """The transactions of a tree on disk. All methods block; one caller at a time.

    After a DiskFault the content of the disk is unknown: every later write raises
    it again, until the journal is reopened.
    """

    def __init__(self, disk: Disk, compact_after: int = 1 << 20) -> None:
        self._disk = disk
        self._compact_after = compact_after
        self._file: DataFile | None = None
        self._compacted_size = 0
        self._fault: DiskFault | None = None

    def open(self) -> Nodes:
        """Read the tree as of the last complete transaction; create the file if it is missing.

        Ephemeral nodes are included: the tree ends their sessions.

        Raises  JournalDamaged, DiskFault; ConfigError if a newer release wrote it
        """
        data = self._disk.load(FILE)
        if data is None:
            nodes = Nodes()
            self.compact(nodes)
            return nodes
        nodes, end = self._read(data)
        self._file = self._disk.open(FILE)
        if end < len(data):
            self._file.truncate(end)
        return nodes

    @property
    def grown(self) -> bool:
        """True if the transactions since the last snapshot have outgrown it."""
        return self._open_file.size > 2 * self._compacted_size + self._compact_after

    def write(self, zxid: int, changes: Sequence[Change]) -> None:
        """Append a transaction and fsync; on return it survives a crash. Raises DiskFault."""
        if self._fault:
            raise self._fault
        try:
            self._open_file.append(_line([zxid, _encode_changes(changes)]))
            self._disk.sync(FILE)
        except DiskFault as fault:
            self._fault = fault
            raise

    def compact(self, nodes: Nodes) -> None:
        """Replace all transactions by a snapshot. Raises DiskFault."""
        if self._fault:
            raise self._fault
        snapshot = b"".join(_snapshot(nodes))
        try:
            # It holds the credentials of users.
            self._disk.replace(FILE, snapshot, private=True)
            self._file = self._disk.open(FILE)
        except DiskFault as fault:
            self._fault = fault
            raise
        self._compacted_size = len(snapshot)

    def close(self) -> None:
        """Close the file; later writes fail."""
        self._file = None

    @property
    def _open_file(self) -> DataFile:
        assert self._file is not None, "the journal is not open"
        return self._file

    def _read(self, data: bytes) -> tuple[Nodes, int]:
        """The tree in the lines, and the offset at which the last good line ends."""
        lines = self._lines(data)
        offset, end, header = next(lines, (0, 0, None))
        self._check_format(header)
        if not (isinstance(header, list) and header[:2] == [MAGIC, FORMAT]):
            raise self._damaged(0, f"it has no header of {MAGIC} format {FORMAT}")
        nodes = Nodes()
        nodes.zxid, expected = header[2:]
        for _ in range(expected):
            offset, end, record = next(lines, (end, end, None))
            if record is None:
                raise self._damaged(offset, "the snapshot is truncated")
            nodes.restore(record[0], _decode_node(record))
        self._compacted_size = good = end
        for offset, end, (zxid, changes) in lines:
            if zxid != nodes.zxid + 1:
                raise self._damaged(offset, f"transaction {zxid} follows {nodes.zxid}")
            nodes.apply(zxid, [_decode_change(change) for change in changes])
            good = end
        return nodes, good

    def _check_format(self, header: object) -> None:
        match header:
            case [magic, int(written), *_] if magic == MAGIC and written > FORMAT:
                raise ConfigError(
                    f"{self._disk.log_dir}/{FILE} has format {written}; this release knows"
                    f" {FORMAT}: use the release that wrote it, or a newer one"
                )

    def _lines(self, data: bytes) -> Iterator[tuple[int, int, Any]]:
        """Start, end and content of every good line; a bad tail is left out."""
        start, bad = 0, -1
        while (end := data.find(b"\n", start) + 1) > 0:
            body = data[start + _HEAD_SIZE : end - 1]
            if not data.startswith(_head(body), start):
                bad = start if bad < 0 else bad
            elif bad >= 0:
                raise self._damaged(bad, f"a bad line, but the one at byte {start} is good")
            else:
                yield start, end, _decode(body.decode("ascii"))[0]
            start = end

    def _damaged(self, offset: int, what: str) -> JournalDamaged:
        return JournalDamaged(f"{self._disk.log_dir}/{FILE}", offset, what)


_decode = json.JSONDecoder().raw_decode
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def _head(body: bytes) -> bytes:
    return b"%08x %08x " % (crc32c(body), len(body))


def _line(record: list[Any]) -> bytes:
    body = _encode(record).encode("ascii")
    return _head(body) + body + b"\n"


def _snapshot(nodes: Nodes) -> Iterator[bytes]:
    yield _line([MAGIC, FORMAT, nodes.zxid, len(nodes)])
    for path, node in nodes:
        data = _to_text(node.data)
        numbers = node.czxid, node.mzxid, node.version, node.created, node.owner
        yield _line([path, data, *numbers])


def _decode_node(record: list[Any]) -> Znode:
    _, text, czxid, mzxid, version, created, owner = record
    return Znode(_to_data(text), czxid, mzxid, version, created, owner)


def _encode_changes(changes: Sequence[Change]) -> list[list[Any]]:
    return [_encode_change(change) for change in changes if not isinstance(change, Checked)]


def _encode_change(change: Created | Changed | Deleted) -> list[Any]:
    match change:
        case Created(path, data, owner):
            return ["+", path, _to_text(data), owner]
        case Changed(path, data):
            return ["=", path, _to_text(data)]
        case Deleted(path):
            return ["-", path]


def _decode_change(record: list[Any]) -> Change:
    match record:
        case ["+", path, text, owner]:
            return Created(path, _to_data(text), owner)
        case ["=", path, text]:
            return Changed(path, _to_data(text))
        case _:
            return Deleted(record[1])


def _to_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _to_data(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
