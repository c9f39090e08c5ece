"""The log section measures a correct log."""

from pathlib import Path

import pytest

from barnabas.bench.bench_plan import SMOKE, Bench
from barnabas.bench.limits.bench_logs import BATCH_BYTES, sparse_log
from barnabas.bench.limits.log_bench import ROWS, WrongResult, demand, log_section


def test_every_row_has_figures_and_leaves_nothing_behind(tmp_path: Path) -> None:
    section = log_section(Bench(SMOKE, tmp_path, print))
    assert len(section.rows) == len(ROWS)
    assert all(number > 0 for row in section.rows for number in row.numbers.values())
    assert list(tmp_path.iterdir()) == []


def test_a_sparse_log_is_large_and_takes_little_room(tmp_path: Path) -> None:
    sparse = sparse_log(tmp_path, segments=3, segment_bytes=2**30, look_ups=6)
    files = [path.stat() for path in tmp_path.rglob("*") if path.is_file()]
    assert sparse.log.size_bytes == 3 * (2**30 // BATCH_BYTES) * BATCH_BYTES
    assert sum(file.st_blocks * 512 for file in files) < 2**23
    assert len(sparse.places) == 6


def test_a_wrong_result_fails_the_run() -> None:
    demand(True, "not raised")
    with pytest.raises(WrongResult, match="half of it"):
        demand(False, "half of it is missing")
