"""Cleaned segments take their place, whatever a crash or a truncation does meanwhile."""

from pathlib import Path

import pytest

from barnabas.base.errors import DiskFault, LawBroken
from barnabas.base.ids import Offset
from barnabas.disk.disk import RealDisk
from barnabas.log.log import Log
from barnabas.wire.records.batch import headers
from tests.log.batches import NOW, append, content, open_partition, read_all
from tests.log.compaction import (
    COMPACT,
    Pair,
    append_pairs,
    begin_cleaning,
    clean,
    pairs_of,
    run,
)
from tests.log.test_log_loader import check_indexes

FOLDER = "orders-0"
VALUE = "value" * 10


class CountingDisk(RealDisk):
    """Notes what changes the folder, and fails from a given operation on, like a dead machine."""

    def __init__(self, folder: str, last: int = 10**9) -> None:
        super().__init__(folder)
        self.operations: list[tuple[str, str]] = []
        self.last = last

    def _note(self, what: str, path: str) -> None:
        if len(self.operations) >= self.last:
            raise DiskFault(self.log_dir, OSError("crashed"))
        self.operations.append((what, path))

    def rename(self, path: str, new_path: str, /) -> None:
        self._note("rename", new_path)
        super().rename(path, new_path)

    def remove(self, path: str, /) -> None:
        self._note("remove", path)
        super().remove(path)

    def resize(self, path: str, size: int, /) -> None:
        self._note("resize", path)
        super().resize(path, size)

    def replace(
        self, path: str, data: bytes, /, *, sync: bool = True, private: bool = False
    ) -> None:
        self._note("replace", path)
        super().replace(path, data, sync=sync, private=private)

    def sync(self, path: str = "", /) -> None:
        self._note("sync", path)


def history(log: Log) -> None:
    """Some keys that stay, some overwritten, and whole segments of which nothing stays."""
    pairs: list[Pair] = [(f"key-{n}", VALUE) for n in range(20)]
    pairs += [(f"key-{n % 5}", f"{n}{VALUE}") for n in range(40)]
    pairs += [(f"key-{n}", None) for n in range(3)]
    for pair in pairs:
        append_pairs(log, [pair])
    log.roll(NOW)
    append_pairs(log, [("last", VALUE)])
    log.flush(NOW)


def prepared(folder: Path, last: int = 10**9) -> tuple[Log, CountingDisk]:
    disk = CountingDisk(str(folder))
    log = open_partition(disk, COMPACT)
    history(log)
    disk.operations.clear()
    disk.last = last
    return log, disk


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / FOLDER).iterdir())


def test_a_crash_after_any_operation_leaves_each_group_as_it_was_or_as_it_became(
    tmp_path: Path,
) -> None:
    log, disk = prepared(tmp_path / "whole")
    before = pairs_of(log)
    cleaning = begin_cleaning(log)
    assert cleaning
    states = [before]
    for _ in cleaning.map_keys():
        pass
    groups = cleaning.groups()
    assert len(groups) > 1
    for group in groups:
        for _ in cleaning.clean(group):
            pass
        log.begin_swap(group, cleaning.take_cleaned()).finish()
        log._swap = None
        states.append(pairs_of(log))
    assert len({len(state) for state in states}) > 2
    for stop in range(len(disk.operations) + 1):
        folder = tmp_path / str(stop)
        crashed, _ = prepared(folder, stop)
        cleaning = begin_cleaning(crashed)
        assert cleaning
        if stop < len(disk.operations):
            with pytest.raises(DiskFault):
                run(crashed, cleaning)
        for is_clean in (False, True):
            disk_again = CountingDisk(str(folder))
            reopened = open_partition(disk_again, COMPACT, clean=is_clean, recovery_point=64)
            assert pairs_of(reopened) in states, stop
            check_indexes(reopened)
            assert reopened.log_end_offset == log.log_end_offset
            left = [name for name in names(folder) if not name.endswith((".log", "index"))]
            assert all(name.endswith((".snapshot", "checkpoint")) for name in left), left
        # It can be cleaned to the end, and written on.
        clean(reopened)
        assert pairs_of(reopened) == states[-1]
        append(reopened)


def test_every_step_is_on_disk_before_the_next_begins(tmp_path: Path) -> None:
    log, disk = prepared(tmp_path)
    assert clean(log, flush=False)
    kinds = []
    for what, path in disk.operations:
        if what == "rename":
            suffix = path.rpartition(".")[2]
            kind = suffix if suffix in ("swap", "deleted") else "final"
            kinds.append(kind)
        elif (what, path) == ("sync", FOLDER):
            kinds.append("sync")
    steps = [kind for n, kind in enumerate(kinds) if n == 0 or kinds[n - 1] != kind]
    assert steps[:6] == ["swap", "sync", "deleted", "sync", "final", "sync"]
    assert steps == steps[:6] * (len(steps) // 6)
    # And what is renamed was brought there as a whole.
    first_swap = disk.operations.index(("rename", f"{FOLDER}/{0:020}.log.swap"))
    for suffix in ("log", "index", "timeindex"):
        assert ("sync", f"{FOLDER}/{0:020}.{suffix}.cleaned") in disk.operations[:first_swap]


def test_a_log_can_be_read_and_appended_to_between_the_steps(tmp_path: Path) -> None:
    log, _ = prepared(tmp_path)
    old = log.locate(Offset(0), 100_000, log.log_end_offset)
    before = content(old)
    cleaning = begin_cleaning(log)
    assert cleaning
    for _ in cleaning.map_keys():
        append_pairs(log, [("meanwhile", VALUE)])
    group = cleaning.groups()[0]
    for _ in cleaning.clean(group):
        append_pairs(log, [("meanwhile", VALUE)])
    swap = log.begin_swap(group, cleaning.take_cleaned())
    seen = pairs_of(log)
    while not swap.is_done:
        swap.sync()
        log.continue_swap(swap)
        append_pairs(log, [("meanwhile", VALUE)])
        assert pairs_of(log)[: len(seen)] == seen
    assert content(old) == before, "who located bytes before can read them until they are removed"
    offsets = [offset for offset, _, _ in pairs_of(log)]
    assert offsets == sorted(set(offsets))


def _begun_swap(log: Log, steps: int) -> None:
    cleaning = begin_cleaning(log)
    assert cleaning
    for _ in cleaning.map_keys():
        pass
    group = cleaning.groups()[0]
    for _ in cleaning.clean(group):
        pass
    swap = log.begin_swap(group, cleaning.take_cleaned())
    for _ in range(steps):
        swap.sync()
        log.continue_swap(swap)


@pytest.mark.parametrize("steps", [0, 1, 2])
@pytest.mark.parametrize("to", [0, 3, 17, 63])
def test_a_truncation_amid_a_swap_cuts_the_log_for_good(
    tmp_path: Path, steps: int, to: int
) -> None:
    log, _ = prepared(tmp_path)
    log.first_dirty_offset = 60
    _begun_swap(log, steps)
    log.truncate_to(Offset(to), NOW)
    assert log.cleaning is None
    assert log.log_end_offset <= to
    assert log.first_dirty_offset == min(60, log.log_end_offset)
    left = pairs_of(log)
    assert all(offset < to for offset, _, _ in left)
    append_pairs(log, [("after", VALUE)])
    reopened = open_partition(tmp_path, COMPACT, clean=False)
    assert pairs_of(reopened) == pairs_of(log) == [*left, (log.log_end_offset - 1, "after", VALUE)]


def test_a_truncation_into_a_gap_ends_the_log_there(tmp_path: Path) -> None:
    log, _ = prepared(tmp_path)
    clean(log)
    kept = [offset for offset, _, _ in pairs_of(log)]
    gap = next(offset for offset in range(5, 60) if offset not in kept)
    log.truncate_to(Offset(gap), NOW)
    assert log.log_end_offset == gap
    assert append(log).base_offset == gap


def test_a_log_that_is_closed_amid_a_swap_finishes_it(tmp_path: Path) -> None:
    log, _ = prepared(tmp_path)
    _begun_swap(log, 0)
    seen = pairs_of(log)
    log.close(NOW)
    assert not [name for name in names(tmp_path) if name.endswith((".swap", ".cleaned"))]
    assert pairs_of(open_partition(tmp_path, COMPACT)) == seen


def test_segments_that_are_active_apart_or_not_flushed_are_not_replaced(tmp_path: Path) -> None:
    log, _ = prepared(tmp_path)
    before = read_all(log)
    first, second, third, *_ = log.segments
    for old in ([log.segments[-1]], [first, third], [second, first]):
        with pytest.raises(LawBroken, match="LOG-5"):
            log.begin_swap(old, [])
    log.recovery_point = Offset(first.end_offset - 1)
    with pytest.raises(LawBroken, match="LOG-5"):
        log.begin_swap([first], [])
    assert read_all(log) == before


def test_a_cleaned_log_survives_clean_and_unclean_restarts(tmp_path: Path) -> None:
    log, _ = prepared(tmp_path)
    clean(log)
    seen = pairs_of(log)
    log.close(NOW)
    for is_clean in (True, False):
        log = open_partition(tmp_path, COMPACT, clean=is_clean)
        assert pairs_of(log) == seen
        for offset in range(log.log_end_offset):
            extent = log.locate(Offset(offset), 1, log.log_end_offset, minimum_one=True)
            ((_, header),) = headers(content(extent))
            assert header.base_offset == min(o for o, _, _ in seen if o >= offset)
