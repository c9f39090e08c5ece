"""Damage that a power loss may do to the files of a log, beyond what was flushed.

Bits that nobody can miss are left alone: a batch's offset and epoch lie outside its CRC. So is a
cut just between two batches, but in the last segment: it leaves nothing that could be called bad.
"""

import math
import random
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Final

from barnabas.log.checkpoints import (
    CorruptCheckpoint,
    decode_epoch_checkpoint,
    decode_offset_checkpoint,
    encode_epoch_checkpoint,
)
from barnabas.log.log_dir import CLEAN_SHUTDOWN
from barnabas.wire.records.batch import headers
from tests.log.batches import PARTITION
from tests.log.crashed import Promises

INDEXES: Final = (".index", ".timeindex")
CHECKPOINTS: Final = ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint")
OUTSIDE_THE_CRC: Final = (*range(8), *range(12, 16))


def damage(folder: Path, promises: Promises, source: random.Random) -> list[str]:
    """Harm some files of a log; tells what was done."""
    partition = folder / str(PARTITION)
    segments = sorted(partition.glob("*.log"))
    if not segments:
        return []
    # Batches that a truncation was about to remove may still be there, and count until then.
    flushed = max(promises.flushed, _recovery_point(folder))
    # A writer that was killed at its very beginning leaves the sign of the clean stop before.
    open_end = math.inf if not (folder / CLEAN_SHUTDOWN).exists() else flushed
    ends = [*(int(path.stem) for path in segments[1:]), open_end]
    done = []
    for path, end in zip(segments, ends, strict=True):
        if end > flushed:
            if source.random() < 0.5:
                done.append(_harm_log(path, path is segments[-1], flushed, source))
            done += [_harm_index(path.with_suffix(suffix), True, source) for suffix in INDEXES]
        else:
            done += [_harm_index(path.with_suffix(suffix), False, source) for suffix in INDEXES]
    done += [_harm_small(path, source) for path in partition.glob("*.snapshot")]
    done += [_harm_small(folder / name, source) for name in CHECKPOINTS]
    epochs = partition / "leader-epoch-checkpoint"
    done += [_lose_epochs(epochs, flushed, source), _harm_small(epochs, source)]
    done += _sprinkle(partition, segments, flushed, source)
    return [what for what in done if what]


def _recovery_point(folder: Path) -> int:
    try:
        known = decode_offset_checkpoint((folder / CHECKPOINTS[0]).read_bytes())
    except (FileNotFoundError, CorruptCheckpoint):
        return 0
    return known.get(PARTITION, 0)


def _harm_log(path: Path, is_last: bool, flushed: int, source: random.Random) -> str:
    """Cut, zero or garble what lies at or beyond the flushed offset."""
    data = bytearray(path.read_bytes())
    found = list(headers(data))
    safe = max((at + h.size for at, h in found if h.next_offset <= flushed), default=0)
    boundaries = {at for at, _ in found} | {len(data)}
    covered = [
        at + n for at, h in found if at >= safe for n in range(h.size) if n not in OUTSIDE_THE_CRC
    ]
    if not covered:
        return ""
    at = source.choice(covered)
    kind = source.choice(("cut", "zeros", "bit", "longer"))
    if kind == "cut" and (is_last or at not in boundaries):
        del data[at:]
    elif kind == "zeros":
        data[at:] = bytes(len(data) - at)
    elif kind == "longer":
        data += bytes(source.choice((1, 60, 5000)))
    else:
        data[at] ^= 1 << source.randrange(8)
    path.write_bytes(data)
    return f"{kind} {path.name} at {at}"


def _harm_index(path: Path, may_lie: bool, source: random.Random) -> str:
    """Spoil an index; one of a flushed segment only so that a look at its end tells."""
    kind = source.choice(("", "", "", "gone", "cut", "zeros", "garbage" if may_lie else "gone"))
    if not kind or not path.exists():
        return ""
    size = path.stat().st_size
    if kind == "gone":
        path.unlink()
    elif kind == "cut":
        # An entry's size more or less shows only in an offset index, where it does no harm.
        kept = source.randint(0, size)
        path.write_bytes(path.read_bytes()[: kept if may_lie or kept % 12 else kept - 1])
    else:
        path.write_bytes(bytes(size) if kind == "zeros" else source.randbytes(size))
    return f"{kind} {path.name}"


def _harm_small(path: Path, source: random.Random) -> str:
    """Cut or garble a file that is known to be whole by its CRC or its line count."""
    if not path.exists() or source.random() < 0.8:
        return ""
    data = path.read_bytes()
    path.write_bytes(data[: source.randrange(len(data))] if data else b"")
    return f"cut {path.name}"


def _lose_epochs(path: Path, flushed: int, source: random.Random) -> str:
    """Leave the checkpoint as it may have been at the last flush."""
    if not path.exists() or source.random() < 0.7:
        return ""
    entries = decode_epoch_checkpoint(path.read_bytes())
    known = [entry for entry in entries if entry.start_offset < flushed]
    path.write_bytes(encode_epoch_checkpoint(known))
    return f"{len(known)} of {len(entries)} epochs"


def _sprinkle(
    partition: Path, segments: list[Path], flushed: int, source: random.Random
) -> list[str]:
    """Leave what an interrupted removal, compaction or replacement leaves."""
    kinds: list[Callable[[Path], list[Path]]] = [
        lambda log: [log.with_name(f"{log.name}.deleted"), log.with_suffix(".index.deleted")],
        lambda log: [log.with_name(f"{log.name}.cleaned"), log.with_name(f"{log.name}.swap")],
        lambda log: [log.with_name("leader-epoch-checkpoint.tmp")],
    ]
    left = [
        path for kind in kinds if source.random() < 0.3 for path in kind(source.choice(segments))
    ]
    for path in left:
        path.write_bytes(source.randbytes(100))
    rolled = [b for b, a in pairwise(segments) if int(a.stem) <= flushed]
    if rolled and not any(path.suffix == ".cleaned" for path in left) and source.random() < 0.3:
        replaced = source.choice(rolled)
        left.append(replaced.with_name(f"{replaced.name}.swap"))
        shutil.copy(replaced, left[-1])
    return [f"left {path.name}" for path in left]
