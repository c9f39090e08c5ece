"""Verifies the files of brokers: segments, indexes, snapshots, checkpoints, against each other."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from struct import Struct
from typing import Final

from barnabas.base.errors import DiskFault
from barnabas.base.ids import TopicPartition
from barnabas.cli.log.dump_result import Damage, Dump
from barnabas.cli.log.file_dumps import DUMPS_BY_NAME, UNREADABLE
from barnabas.cli.log.log_files import FOLDER_FILES, OFFSET_CHECKPOINTS, SEGMENT_FILE, Folder
from barnabas.cli.log.verify_report import Verified
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
_RECOVERED: Final = "it is ignored at the next start, and more of the logs is scanned"
_REFUSED: Final = "a broker does not start with it"
_EPOCHS: Final = "followers may truncate to the wrong offset"

Offsets = dict[TopicPartition, int]


def verify(folders: Sequence[Folder], verified: Verified) -> None:
    """Look at all that is in `folders`; whatever is wrong goes to `verified`."""
    checkpoints: dict[Path, Offsets] = {}
    for folder in folders:
        for name in folder.names:
            if name in FOLDER_FILES:
                # Before the logs: those of a running broker only grow.
                checkpoints |= _read_folder_file(folder.path / name, verified)
    for folder in folders:
        if folder.is_partition:
            try:
                _verify_partition(folder, verified)
            except PermissionError as error:  # files by their names, but no looking around
                verified.report_unreadable(Path(error.filename or folder.path), error)
    for path, offsets in checkpoints.items():
        _compare_offsets(path, offsets, verified)


def _read_folder_file(path: Path, verified: Verified) -> dict[Path, Offsets]:
    if path.name in OFFSET_CHECKPOINTS:
        with _reading(path, verified, _RECOVERED):
            return {path: decode_offset_checkpoint(path.read_bytes())}
    else:
        with _reading(path, verified, _REFUSED):
            _exhaust(DUMPS_BY_NAME[path.name](path))
    return {}


class _reading:
    """Report what cannot be read; a file that a running broker has removed is none of ours."""

    def __init__(self, path: Path, verified: Verified, meaning: str) -> None:
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


def _compare_offsets(path: Path, offsets: Offsets, verified: Verified) -> None:
    for partition, offset in offsets.items():
        end = verified.log_ends.get(path.parent / str(partition))
        if end is not None and offset > end:
            what = f"{partition} was at {offset}, its log ends at {end}"
            verified.report(path, None, what, "records that had been written are lost")


# One partition


def _verify_partition(folder: Folder, verified: Verified) -> None:
    for name in folder.names:
        if name == "partition.metadata":
            with _reading(folder.path / name, verified, _REFUSED):
                read_topic_id(RealDisk(str(folder.path.parent)), folder.path.name)
    entries = _read_epochs(folder, verified)
    bases = folder.bases
    wanted = {int(match[1]) for match in map(SEGMENT_FILE.fullmatch, folder.names) if match}
    epoch = -1
    for number, base_offset in enumerate(bases):
        if base_offset in wanted:
            next_base = bases[number + 1] if number + 1 < len(bases) else None
            scanned = _verify_segment(folder, base_offset, next_base, epoch, verified)
            if scanned is not None:
                epoch = scanned.epoch
                _compare_epochs(folder, scanned, entries, verified)
                if next_base is None:  # else what is not read would count as lost
                    verified.log_ends[folder.path] = scanned.next_offset
    for path in folder.files(".snapshot"):
        _verify_snapshot(path, verified)
    for base_offset in wanted - set(bases):
        _report_orphans(folder, base_offset, verified)


def _verify_segment(
    folder: Folder, base_offset: int, next_base: int | None, epoch: int, verified: Verified
) -> Scanned | None:
    stem = f"{base_offset:020}"
    log = folder.path / f"{stem}.log"
    is_last = next_base is None
    # Before the batches: whatever an index leads to has then been written.
    indexes = {suffix: _read_index(folder, stem + suffix, verified) for suffix in _INDEXES}
    shown = verified if log.name in folder.names else _silently()
    scanned: Scanned | None = None
    with _reading(log, shown, "the segment cannot be read"):
        scanned = scan_segment(log, base_offset, epoch, is_last=is_last, verified=shown)
    if scanned is None:
        return None
    if next_base is not None and scanned.next_offset > next_base:
        what = f"reaches up to offset {scanned.next_offset}, the next segment begins at {next_base}"
        shown.report(log, None, what, "some offsets are there twice")
    if (found := indexes[".index"]) is not None:
        check_offset_index(folder.path / f"{stem}.index", found, scanned, verified)
    if (found := indexes[".timeindex"]) is not None:
        path, is_complete = folder.path / f"{stem}.timeindex", not is_last or folder.was_closed
        check_time_index(path, found, scanned, is_complete=is_complete, verified=verified)
    if f"{stem}.txnindex" in folder.names:
        _verify_aborted(folder.path / f"{stem}.txnindex", scanned, verified)
    return scanned


def _silently() -> Verified:
    """For a segment that only its indexes are compared with."""
    return Verified(lambda problem: None, lambda size: None, deep=False)


def _read_index(folder: Folder, name: str, verified: Verified) -> list[tuple[int, ...]] | None:
    path = folder.path / name
    if name in folder.names:
        with _reading(path, verified, REBUILT):
            return read_entries(path, _INDEXES[path.suffix], verified)
    elif f"{path.stem}.log" in folder.names and not path.exists():
        verified.report(path, None, "is missing", "it is built anew at the next start")
    return None


def _verify_aborted(path: Path, scanned: Scanned, verified: Verified) -> None:
    meaning = "readers of committed records may see aborted ones"
    with _reading(path, verified, meaning):
        data = path.read_bytes()
        whole = len(data) - len(data) % _ABORTED.size
        previous = scanned.base_offset - 1
        for at in range(0, whole, _ABORTED.size):
            version, _, first, last, _ = _ABORTED.unpack_from(data, at)
            if version != 0:
                verified.report(path, at, f"unknown version {version}", meaning)
            elif not (first <= last and previous < last < scanned.next_offset):
                what = f"a transaction from {first} to {last} cannot have been aborted here"
                verified.report(path, at, what, meaning)
            previous = last
        if whole < len(data):
            what = f"cut off: an entry has {_ABORTED.size} bytes"
            verified.report(path, whole, what, meaning)


def _verify_snapshot(path: Path, verified: Verified) -> None:
    offset = int(path.stem)
    with _reading(path, verified, "an earlier one is used, and more of the log is scanned"):
        for producer in decode_snapshot(path.read_bytes()):
            if producer.last_offset >= offset:
                what = f"producer {producer.producer_id} is at {producer.last_offset} already"
                verified.report(path, None, what, "retries of its batches may be refused")


def _report_orphans(folder: Folder, base_offset: int, verified: Verified) -> None:
    for suffix in (*_INDEXES, ".txnindex"):
        path = folder.path / f"{base_offset:020}{suffix}"
        if path.name in folder.names and path.exists() and folder.bases:
            verified.report(path, None, "has no segment", "it is removed at the next start")


# Leader epochs


def _read_epochs(folder: Folder, verified: Verified) -> list[EpochEntry]:
    if "leader-epoch-checkpoint" not in folder.names:
        return []
    path = folder.path / "leader-epoch-checkpoint"
    with _reading(path, verified, "epochs are read from the batches at the next start"):
        entries = decode_epoch_checkpoint(path.read_bytes())
        if list(LeaderEpochs(entries).entries) != entries:
            verified.report(path, None, "epochs and offsets do not rise", _EPOCHS)
            return []
        return entries
    return []


def _compare_epochs(
    folder: Folder, scanned: Scanned, entries: list[EpochEntry], verified: Verified
) -> None:
    """Of offsets before the first entry nothing is known; the last epoch may be too new for it."""
    known = LeaderEpochs(entries)
    for epoch, first, last in scanned.epochs:
        if not entries or (epoch > known.latest and not folder.was_closed):
            continue
        for offset in (first, last):
            told = known.epoch_for_offset(offset)
            if offset >= entries[0].start_offset and told != epoch:
                path = folder.path / "leader-epoch-checkpoint"
                what = f"offset {offset} is of epoch {epoch}, the checkpoint says {told}"
                verified.report(path, None, what, _EPOCHS)
                break
