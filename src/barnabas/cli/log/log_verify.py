"""Consistency checks of a broker's segments, indexes, snapshots and checkpoints."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from struct import Struct
from typing import Final

from barnabas.base.errors import DiskFault
from barnabas.base.ids import TopicPartition
from barnabas.cli.log.dump_result import Damage, Dump
from barnabas.cli.log.file_dumps import DUMPS_BY_NAME, UNREADABLE
from barnabas.cli.log.log_files import LOG_DIR_FILES, OFFSET_CHECKPOINTS, SEGMENT_FILE, BrokerDir
from barnabas.cli.log.verify_report import VerifyReport
from barnabas.cli.log.verify_segment import (
    REBUILT,
    Scanned,
    check_offset_index,
    check_time_index,
    read_entries,
    scan_segment,
)
from barnabas.disk.disk import RealDisk
from barnabas.log.checkpoints import decode_epoch_checkpoint, decode_offset_checkpoint
from barnabas.log.leader_epochs import EpochEntry, LeaderEpochs
from barnabas.log.producers.producer_snapshot import decode_snapshot
from barnabas.log.recovery.log_loader import read_topic_id
from barnabas.log.segment.index import OffsetIndex, TimeIndex

_ABORTED: Final = Struct(">hqqqq")
_INDEXES: Final[Mapping[str, Struct]] = {
    ".index": OffsetIndex.FORMAT,
    ".timeindex": TimeIndex.FORMAT,
}
_RECOVERED: Final = "ignored at the next start, which scans more of the logs"
_REFUSED: Final = "the broker will not start"
_EPOCHS: Final = "followers may truncate to the wrong offset"

Offsets = dict[TopicPartition, int]


def verify(directories: Sequence[BrokerDir], verified: VerifyReport) -> None:
    """Check all files of `directories`; report problems to `verified`."""
    checkpoints: dict[Path, Offsets] = {}
    for directory in directories:
        for name in directory.names:
            if name in LOG_DIR_FILES:
                # Before the logs: logs of a running broker only grow.
                checkpoints |= _read_log_dir_file(directory.path / name, verified)
    for directory in directories:
        if directory.is_partition:
            try:
                _verify_partition(directory, verified)
            except PermissionError as error:  # the directory cannot be listed
                verified.report_unreadable(Path(error.filename or directory.path), error)
    for path, offsets in checkpoints.items():
        _compare_offsets(path, offsets, verified)


def _read_log_dir_file(path: Path, verified: VerifyReport) -> dict[Path, Offsets]:
    if path.name in OFFSET_CHECKPOINTS:
        with _reading(path, verified, _RECOVERED):
            return {path: decode_offset_checkpoint(path.read_bytes())}
    else:
        with _reading(path, verified, _REFUSED):
            _exhaust(DUMPS_BY_NAME[path.name](path))
    return {}


class _reading:
    """Report files that cannot be read, except those that a running broker has removed."""

    def __init__(self, path: Path, verified: VerifyReport, meaning: str) -> None:
        self._path = path
        self._verified = verified
        self._meaning = meaning

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        cause = error.cause if isinstance(error, DiskFault) else error
        if isinstance(cause, OSError):
            if not isinstance(cause, FileNotFoundError):
                self._verified.report_unreadable(self._path, cause)
        elif isinstance(cause, UNREADABLE):
            what = " ".join(str(cause).split())
            self._verified.report(self._path, None, what, self._meaning)
        return isinstance(cause, UNREADABLE)


def _exhaust(dump: Dump) -> None:
    for found in dump:
        if isinstance(found, Damage):
            raise ValueError(str(found))


def _compare_offsets(path: Path, offsets: Offsets, verified: VerifyReport) -> None:
    for partition, offset in offsets.items():
        end = verified.log_ends.get(path.parent / str(partition))
        if end is not None and offset > end:
            what = f"{partition} has offset {offset}, but its log ends at {end}"
            verified.report(path, None, what, "written records are lost")


# One partition


def _verify_partition(directory: BrokerDir, verified: VerifyReport) -> None:
    for name in directory.names:
        if name == "partition.metadata":
            with _reading(directory.path / name, verified, _REFUSED):
                read_topic_id(RealDisk(str(directory.path.parent)), directory.path.name)
    entries = _read_epochs(directory, verified)
    bases = directory.bases
    wanted = {int(match[1]) for match in map(SEGMENT_FILE.fullmatch, directory.names) if match}
    epoch = -1
    for number, base_offset in enumerate(bases):
        if base_offset in wanted:
            next_base = bases[number + 1] if number + 1 < len(bases) else None
            scanned = _verify_segment(directory, base_offset, next_base, epoch, verified)
            if scanned is not None:
                epoch = scanned.epoch
                _compare_epochs(directory, scanned, entries, verified)
                if next_base is None:  # else unread segments would count as lost
                    verified.log_ends[directory.path] = scanned.next_offset
    for path in directory.files(".snapshot"):
        _verify_snapshot(path, verified)
    for base_offset in wanted - set(bases):
        _report_orphans(directory, base_offset, verified)


def _verify_segment(
    directory: BrokerDir,
    base_offset: int,
    next_base: int | None,
    epoch: int,
    verified: VerifyReport,
) -> Scanned | None:
    stem = f"{base_offset:020}"
    log = directory.path / f"{stem}.log"
    is_last = next_base is None
    # Before the batches: those that an index points to have then been written.
    indexes = {suffix: _read_index(directory, stem + suffix, verified) for suffix in _INDEXES}
    shown = verified if log.name in directory.names else _silently()
    scanned: Scanned | None = None
    with _reading(log, shown, "the segment cannot be read"):
        scanned = scan_segment(log, base_offset, epoch, is_last=is_last, verified=shown)
    if scanned is None:
        return None
    if next_base is not None and scanned.next_offset > next_base:
        what = f"ends at offset {scanned.next_offset}, but the next segment begins at {next_base}"
        shown.report(log, None, what, "duplicate offsets")
    if (found := indexes[".index"]) is not None:
        check_offset_index(directory.path / f"{stem}.index", found, scanned, verified)
    if (found := indexes[".timeindex"]) is not None:
        path, is_complete = (
            directory.path / f"{stem}.timeindex",
            not is_last or directory.was_closed,
        )
        check_time_index(path, found, scanned, is_complete=is_complete, verified=verified)
    if f"{stem}.txnindex" in directory.names:
        _verify_aborted(directory.path / f"{stem}.txnindex", scanned, verified)
    return scanned


def _silently() -> VerifyReport:
    """A report to discard, for a segment that is read only to check its indexes."""
    return VerifyReport(lambda problem: None, lambda size: None, deep=False)


def _read_index(
    directory: BrokerDir, name: str, verified: VerifyReport
) -> list[tuple[int, ...]] | None:
    path = directory.path / name
    if name in directory.names:
        with _reading(path, verified, REBUILT):
            return read_entries(path, _INDEXES[path.suffix], verified)
    elif f"{path.stem}.log" in directory.names and not path.exists():
        verified.report(path, None, "is missing", "rebuilt at the next start")
    return None


def _verify_aborted(path: Path, scanned: Scanned, verified: VerifyReport) -> None:
    meaning = "read_committed consumers may see aborted records"
    with _reading(path, verified, meaning):
        data = path.read_bytes()
        whole = len(data) - len(data) % _ABORTED.size
        previous = scanned.base_offset - 1
        for at in range(0, whole, _ABORTED.size):
            version, _, first, last, _ = _ABORTED.unpack_from(data, at)
            if version != 0:
                verified.report(path, at, f"unknown version {version}", meaning)
            elif not (first <= last and previous < last < scanned.next_offset):
                what = f"aborted transaction from {first} to {last} is out of range"
                verified.report(path, at, what, meaning)
            previous = last
        if whole < len(data):
            what = f"truncated entry of {_ABORTED.size} bytes"
            verified.report(path, whole, what, meaning)


def _verify_snapshot(path: Path, verified: VerifyReport) -> None:
    offset = int(path.stem)
    with _reading(path, verified, "recovery uses an earlier one and scans more of the log"):
        for producer in decode_snapshot(path.read_bytes()):
            if producer.last_offset >= offset:
                what = (
                    f"producer {producer.producer_id} has last offset {producer.last_offset},"
                    " after the snapshot"
                )
                verified.report(path, None, what, "retries of its batches may be rejected")


def _report_orphans(directory: BrokerDir, base_offset: int, verified: VerifyReport) -> None:
    for suffix in (*_INDEXES, ".txnindex"):
        path = directory.path / f"{base_offset:020}{suffix}"
        if path.name in directory.names and path.exists() and directory.bases:
            verified.report(path, None, "has no segment", "removed at the next start")


# Leader epochs


def _read_epochs(directory: BrokerDir, verified: VerifyReport) -> list[EpochEntry]:
    if "leader-epoch-checkpoint" not in directory.names:
        return []
    path = directory.path / "leader-epoch-checkpoint"
    with _reading(path, verified, "rebuilt from the batches at the next start"):
        entries = decode_epoch_checkpoint(path.read_bytes())
        if list(LeaderEpochs(entries).entries) != entries:
            verified.report(path, None, "epochs and offsets do not increase", _EPOCHS)
            return []
        return entries
    return []


def _compare_epochs(
    directory: BrokerDir, scanned: Scanned, entries: list[EpochEntry], verified: VerifyReport
) -> None:
    """Compare epochs of batches with the checkpoint's.

    The checkpoint does not cover offsets before its first entry, and may lack the last epoch.
    """
    known = LeaderEpochs(entries)
    for epoch, first, last in scanned.epochs:
        if not entries or (epoch > known.latest and not directory.was_closed):
            continue
        for offset in (first, last):
            expected = known.epoch_for_offset(offset)
            if offset >= entries[0].start_offset and expected != epoch:
                path = directory.path / "leader-epoch-checkpoint"
                what = f"offset {offset} has epoch {epoch}, but the checkpoint has {expected}"
                verified.report(path, None, what, _EPOCHS)
                break
