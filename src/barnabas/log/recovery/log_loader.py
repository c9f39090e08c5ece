"""The opening of a partition's directory, with recovery after an unclean shutdown.

1. finish or undo interrupted work: `.deleted`, `.cleaned` and `.swap` files
2. load the segments; rebuild each index that cannot be right
3. after an unclean shutdown, read all batches from the recovery point's segment on; at the first
   that is torn, damaged, out of order or missing, truncate the log and remove later segments
4. restore leader epochs and producer state to match the segments
"""

import base64
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple
from uuid import UUID

from barnabas.base.errors import BarnabasError, BrokerError
from barnabas.base.ids import Offset, TopicPartition
from barnabas.base.randomness import Random
from barnabas.config.topic_config import TopicConfig
from barnabas.disk.disk import Disk
from barnabas.log.checkpoints import CorruptCheckpoint, decode_epoch_checkpoint
from barnabas.log.cleaner.swap import CLEANED, SWAP
from barnabas.log.flushes import EPOCH_CHECKPOINT, PARTITION_METADATA
from barnabas.log.leader_epochs import EpochEntry, LeaderEpochs
from barnabas.log.log import Log
from barnabas.log.producers.producer_snapshots import snapshot_offsets, snapshot_path
from barnabas.log.producers.producer_state import ProducerStates
from barnabas.log.segment.active_segment import MAX_RELATIVE
from barnabas.log.segment.index import Sizes
from barnabas.log.segment.segment import LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, Segment
from barnabas.log.segment.segments import DELETED, draw_jitter_ms, new_segment

_INDEXES: Final = (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)


class Opening(NamedTuple):
    """The configuration and checkpoint entries of a partition whose log is to be opened."""

    partition: TopicPartition
    config: TopicConfig
    clean: bool  # after a clean shutdown nothing needs to be scanned
    recovery_point: int | None = None  # up to where it was flushed, if known
    log_start_offset: int = 0
    first_dirty_offset: int | None = None  # up to where it was compacted, if ever
    directory: str = ""  # where it is not named after the partition

    def may_be_compacted(self, segment: Segment) -> bool:
        """True if a segment may have gaps, though it is scanned.

        Compaction writes the recovery point first, and a log that may be compacted has one before
        it gets a second segment. So a scanned segment has gaps only if the recovery point is
        unknown, since somebody put the files here, or if another program wrote it; that program
        then has a cleaner checkpoint, too. Without either, a segment whose only gap is at its end
        has lost records there.
        """
        if self.first_dirty_offset is not None:
            return segment.base_offset < self.first_dirty_offset
        return self.config.compacts and self.recovery_point is None and not _is_dense(segment)


def open_log(
    disk: Disk,
    opening: Opening,
    *,
    producers: ProducerStates,
    random: Random,
    now_ms: int,
    settle: Callable[[Log], None] = lambda log: log.on_settled(log.cuts),
    announce: Callable[[Log], None] = lambda _: None,
) -> Log:
    """The log that the directory holds, with every whole batch up to the first damage.

    Raises  DiskFault; the directory can be opened again
    """
    directory, config = opening.directory or str(opening.partition), opening.config
    sizes = disk.sizes(directory)
    if _settle_leftovers(disk, directory, sizes, config, now_ms):
        sizes = disk.sizes(directory)
    known = _load_epochs(disk, directory) if EPOCH_CHECKPOINT in sizes else None
    epochs = LeaderEpochs(known or ())
    segments = _load_segments(disk, directory, sizes, config, random, now_ms)
    _check_or_recover(disk, segments, epochs, opening)
    if segments and segments[-1].end_offset < opening.log_start_offset:
        _remove_segments(disk, segments)
    if not segments:
        segments.append(
            new_segment(disk, directory, opening.log_start_offset, config, random, now_ms)
        )
    end = Offset(segments[-1].end_offset)
    start = max(Offset(opening.log_start_offset), Offset(segments[0].base_offset))
    epochs.truncate_from_end(end)
    if not known or not epochs.entries:
        epochs.truncate_from_end(0)  # recovery has noted those of its part only
        _read_epochs(segments, epochs)
    epochs.truncate_from_start(start)
    first_dirty_offset = opening.first_dirty_offset
    if first_dirty_offset is not None and first_dirty_offset > end:
        # Its records are gone, and records appended there next are not cleaned.
        first_dirty_offset = None
    log = Log(
        disk,
        opening.partition,
        config,
        segments,
        epochs=epochs,
        producers=producers,
        log_start_offset=start,
        recovery_point=end if opening.clean else min(opening.recovery_point or 0, end),
        random=random,
        now_ms=now_ms,
        topic_id=read_topic_id(disk, directory) if PARTITION_METADATA in sizes else None,
        first_dirty_offset=first_dirty_offset,
        settle=settle,
        announce=announce,
        directory=directory,
    )
    if list(epochs.entries) != (known or []):
        log.write_epochs()
    snapshots = _remove_stray_snapshots(disk, directory, snapshot_offsets(sizes), segments)
    log.restore_producers(now_ms, snapshots)
    for segment in segments:
        segment.close()
    return log


def _settle_leftovers(
    disk: Disk, directory: str, names: Iterable[str], config: TopicConfig, now_ms: int
) -> bool:
    """Undo a compaction without complete `.swap` files, and complete any other.

    Returns whether files may have changed.
    """
    names = [name for name in names if name.endswith((DELETED, CLEANED, SWAP, ".tmp"))]
    cleaned = [name for name in names if name.endswith(CLEANED)]
    first_cleaned = min((_offset_of(name) for name in cleaned), default=2**63)
    swapped = []
    for name in names:
        if name.endswith((DELETED, CLEANED, ".tmp")):
            disk.remove(f"{directory}/{name}")
        elif name.endswith(SWAP):
            if _offset_of(name) >= first_cleaned:
                disk.remove(f"{directory}/{name}")
            else:
                swapped.append(name)
    if swapped:
        _complete_swap(disk, directory, swapped, config, now_ms)
    return bool(names)


def _complete_swap(
    disk: Disk, directory: str, swapped: list[str], config: TopicConfig, now_ms: int
) -> None:
    """Replace the segments that the swapped ones cover."""
    bases = [_offset_of(name) for name in swapped if name.endswith(LOG + SWAP)]
    swaps = [Segment(disk, directory, base, config, now_ms, suffix=SWAP) for base in bases]
    for segment in swaps:
        segment.find_end_offset()
        segment.close()
    # An empty one covers its own base offset only.
    ends = [max(swap.end_offset, swap.base_offset + 1) for swap in swaps]
    first, end = min(bases, default=0), max(ends, default=0)
    for name in disk.list(directory):
        if name.endswith((LOG, *_INDEXES)) and first <= _offset_of(name) < end:
            disk.remove(f"{directory}/{name}")
    for name in swapped:
        disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP)}")


def _offset_of(name: str) -> int:
    """The offset that a file is named after, or -1."""
    stem = name.partition(".")[0]
    return int(stem) if stem.isdecimal() else -1


def _load_epochs(disk: Disk, directory: str) -> Sequence[EpochEntry] | None:
    """Return the checkpoint's entries; None if absent, empty or damaged: the batches have them."""
    try:
        return decode_epoch_checkpoint(disk.load(f"{directory}/{EPOCH_CHECKPOINT}") or b"") or None
    except CorruptCheckpoint:
        return None


def _load_segments(
    disk: Disk, directory: str, sizes: Sizes, config: TopicConfig, random: Random, now_ms: int
) -> list[Segment]:
    bases = [_offset_of(name) for name in sizes if name.endswith(LOG) and _offset_of(name) >= 0]
    known = frozenset(bases)
    for name in sizes:
        if name.endswith(_INDEXES) and _offset_of(name) not in known:
            disk.remove(f"{directory}/{name}")
    segments = []
    for base in bases:
        jitter_ms = draw_jitter_ms(config, random)
        segments.append(
            Segment(disk, directory, base, config, now_ms, jitter_ms=jitter_ms, sizes=sizes)
        )
    for segment, next_base in zip(segments, bases[1:], strict=False):
        segment.end_offset = next_base
    return segments


def _check_or_recover(
    disk: Disk, segments: list[Segment], epochs: LeaderEpochs, opening: Opening
) -> None:
    """Scan the segments that may be unflushed, and truncate the log at the first damage.

    In flushed segments it checks only the indexes and the end of the log, and rebuilds the indexes
    from the batches if need be.
    """
    recovery_point = opening.recovery_point or 0
    for number, segment in enumerate(segments):
        end, is_last = segment.end_offset, segment is segments[-1]
        is_flushed = opening.clean or segment.base_offset < end <= recovery_point
        if is_flushed and segment.check() and (not is_last or segment.find_end_offset()):
            continue
        is_cut = segment.recover(epochs, None if is_last else end) > 0
        # The kernel writes segments to disk in any order, so a later one may have more. A gap is
        # right only where compaction left it, or where a follower got a batch whose offset the
        # segment before cannot hold.
        is_short = (
            segment.end_offset < end <= segment.base_offset + MAX_RELATIVE + 1
            and not opening.may_be_compacted(segment)
        )
        if (is_cut or (is_short and not is_last)) and not is_flushed:
            # Before the cut: a crash in between must not leave a gap between two sound segments.
            later = segments[number + 1 :]
            del segments[number + 1 :]
            _remove_segments(disk, later)
        if is_cut:
            segment.cut()
        segment.close()
        if segment is not segments[-1]:
            segment.end_offset = max(segment.end_offset, end)


def _is_dense(segment: Segment) -> bool:
    """True if it has records, and none is missing before the end of what it has."""
    offset = segment.base_offset
    for _, header in segment.headers():
        if header.base_offset != offset or offset + header.record_count != header.last_offset + 1:
            return False
        offset += header.record_count
    return offset > segment.base_offset


def _read_epochs(segments: Sequence[Segment], epochs: LeaderEpochs) -> None:
    """Add the epochs of all batches: the checkpoint had none below a log start that is lost."""
    for segment in segments:
        with suppress(BrokerError):  # skip the rest of a damaged segment
            for _, header in segment.headers():
                if header.leader_epoch > epochs.latest:
                    epochs.assign(header.leader_epoch, header.base_offset)


def _remove_segments(disk: Disk, segments: list[Segment]) -> None:
    """From the end on, so that a crash midway leaves no gap."""
    while segments:
        segment = segments.pop()
        segment.close()
        for suffix in (LOG, *_INDEXES):
            disk.remove(segment.path(suffix))


def _remove_stray_snapshots(
    disk: Disk, directory: str, offsets: Sequence[int], segments: Sequence[Segment]
) -> list[int]:
    """Keep the snapshots of segments, and the newest: a clean shutdown writes it at the end."""
    bases = {segment.base_offset for segment in segments}
    kept = [offset for offset in offsets if offset in bases or offset == offsets[-1]]
    for offset in offsets:
        if offset not in kept:
            disk.remove(snapshot_path(directory, offset))
    return kept


class CorruptMetadata(BarnabasError):
    """A `partition.metadata` cannot be read; the message names it."""


def read_topic_id(disk: Disk, directory: str) -> UUID | None:
    """Return the topic id in `partition.metadata`, if it was ever written.

    Raises  CorruptMetadata
    """
    path = f"{directory}/{PARTITION_METADATA}"
    data = disk.load(path)
    if not data:  # a crash can leave it empty: it is not waited for
        return None
    fields = dict(line.split(": ", 1) for line in data.decode().splitlines() if ": " in line)
    try:
        return UUID(bytes=base64.urlsafe_b64decode(fields["topic_id"] + "=="))
    except (KeyError, ValueError) as error:
        raise CorruptMetadata(f"{disk.log_dir}/{path} holds no topic id: {data!r}") from error


def write_topic_id(disk: Disk, directory: str, topic_id: UUID) -> None:
    text = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
    disk.replace(
        f"{directory}/{PARTITION_METADATA}", f"version: 0\ntopic_id: {text}".encode(), sync=False
    )
