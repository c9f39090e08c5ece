"""A bit that rots in the base offset of a batch, which no CRC covers, must not leave a hole."""

from pathlib import Path

import pytest

from barnabas.base.ids import Offset
from tests.log.batches import NOW, fill, open_partition, read_all


def leave_a_gap(folder: Path) -> list[bytes]:
    """Four batches, of which the third seems to begin 1024 later."""
    log = open_partition(folder)
    batches = fill(log, 4)
    path = folder / str(log.partition) / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[2 * len(batches[0]) + 6] ^= 4
    data[3 * len(batches[0]) + 6] ^= 4
    path.write_bytes(data)
    return batches


def test_a_truncation_before_a_batch_whose_offset_has_rotted_leaves_no_gap(tmp_path: Path) -> None:
    batches = leave_a_gap(tmp_path)
    log = open_partition(tmp_path, clean=False)
    assert log.log_end_offset == 1028
    log.truncate_to(Offset(4), NOW)
    assert (log.log_end_offset, read_all(log)) == (2, batches[:2])


@pytest.mark.parametrize("first_dirty_offset", [1000, 1])
def test_a_log_that_was_compacted_once_has_gaps_that_a_truncation_leaves(
    tmp_path: Path, first_dirty_offset: int
) -> None:
    """Also beyond what is noted to be compacted: a pass may have been interrupted after it."""
    batches = leave_a_gap(tmp_path)
    log = open_partition(tmp_path, first_dirty_offset=first_dirty_offset)
    log.truncate_to(Offset(4), NOW)
    assert (log.log_end_offset, read_all(log)) == (4, batches[:2])
