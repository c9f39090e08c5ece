"""Between a truncation and the next append: checkpoints and files must not tell of what is gone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.errors import DiskFault, LawBroken
from barnabas.base.ids import Offset
from barnabas.log.log import Log
from barnabas.log.log_dir import (
    FIRST_DIRTY_OFFSET,
    HIGH_WATERMARK,
    LOG_START_OFFSET,
    RECOVERY_POINT,
)
from barnabas.log.logs import Logs
from barnabas.log.segment.segment import Segment
from tests.log.batches import CONFIG, NOW, append, content, fill, open_partition
from tests.log.test_logs import A, B, opened


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Logs]:
    with opened(tmp_path) as logs:
        log = logs.create(A, None, CONFIG)
        fill(logs.create(B, None, CONFIG), 5)
        fill(log, 100)
        log.flush(NOW)
        log.first_dirty_offset = 80
        log.delete_records_before(Offset(7))
        for write in logs.checkpoints.writes({A: 90, B: 3}):
            write.run()
        yield logs


@pytest.fixture
def log(logs: Logs) -> Log:
    found = logs.get(A)
    assert found is not None
    return found


def stored(folder: Path, checkpoint: str) -> list[str]:
    return (folder / checkpoint).read_text().splitlines()[2:]


def is_settled(log: Log) -> bool:
    return not log.is_unsettled


def check_lowered(folder: Path) -> None:
    assert stored(folder, RECOVERY_POINT) == ["my-topic 0 40", "my-topic 1 0"]
    assert stored(folder, FIRST_DIRTY_OFFSET) == ["my-topic 0 40"]
    assert stored(folder, HIGH_WATERMARK) == ["my-topic 0 40", "my-topic 1 3"]


def test_the_next_append_waits_until_the_checkpoints_are_lower(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.truncate_to(Offset(40), NOW)
    assert not is_settled(log)
    assert stored(tmp_path, RECOVERY_POINT)[0] == "my-topic 0 100"
    write = Segment.append

    def check_then_write(segment: Segment, *batch: Any) -> None:
        check_lowered(tmp_path)
        write(segment, *batch)

    monkeypatch.setattr(Segment, "append", check_then_write)
    append(log)
    assert is_settled(log)
    assert log.log_end_offset == 41


def test_nothing_is_appended_to_a_log_that_nobody_settled(log: Log) -> None:
    log._settle = lambda _: None
    log.truncate_to(Offset(40), NOW)
    with pytest.raises(LawBroken, match="LOG-6"):
        append(log)
    assert log.log_end_offset == 40


def test_what_a_follower_is_sent_waits_as_well(tmp_path: Path, log: Log) -> None:
    batch = fill(open_partition(tmp_path / "other"), 41)[40]
    log.truncate_to(Offset(40), NOW)
    log.append_as_follower(batch, NOW)
    check_lowered(tmp_path)


def test_a_thread_can_see_to_it_before(
    tmp_path: Path, logs: Logs, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.truncate_to(Offset(40), NOW)
    settling = logs.checkpoints.start_truncation_sync([log])
    settling.run()
    assert not is_settled(log)
    settling.done()
    check_lowered(tmp_path)
    monkeypatch.setattr(log.disk, "sync", lambda _: pytest.fail("it was settled"))
    append(log)


def test_settling_that_another_truncation_overtook_is_not_enough(
    tmp_path: Path, logs: Logs, log: Log
) -> None:
    log.truncate_to(Offset(60), NOW)
    settling = logs.checkpoints.start_truncation_sync([log])
    log.truncate_to(Offset(40), NOW)
    settling.run()
    settling.done()
    assert not is_settled(log)
    append(log)
    check_lowered(tmp_path)


def test_a_checkpoint_decided_before_the_truncation_does_not_undo_it(
    tmp_path: Path, logs: Logs, log: Log
) -> None:
    late = logs.checkpoints.writes({A: 90, B: 3})
    log.truncate_to(Offset(40), NOW)
    append(log)
    for write in late:
        write.run()
    check_lowered(tmp_path)


def test_a_log_that_cannot_settle_refuses_appends(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.truncate_to(Offset(40), NOW)
    fault = DiskFault(log.disk.log_dir, OSError("no"))

    def fail(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr(log.disk, "replace", fail)
    with pytest.raises(DiskFault):
        append(log)
    assert log.failure is fault
    assert log.log_end_offset == 40


def test_a_log_truncated_to_before_its_start_keeps_the_new_start(tmp_path: Path, log: Log) -> None:
    log.truncate_fully_and_start_at(Offset(2), NOW)
    append(log)
    assert stored(tmp_path, LOG_START_OFFSET) == []
    assert (log.log_start_offset, log.log_end_offset) == (2, 3)


def test_high_watermarks_of_partitions_without_a_role_are_kept(tmp_path: Path, logs: Logs) -> None:
    for write in logs.checkpoints.writes({B: 4}):
        write.run()
    assert stored(tmp_path, HIGH_WATERMARK) == ["my-topic 0 90", "my-topic 1 4"]


def test_a_cold_read_that_a_truncation_overtook_is_refused(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    written = fill(log, 20)
    before = log.locate(Offset(0), 10**6, Offset(5))
    across = log.locate(Offset(0), 10**6, Offset(20))
    beyond = log.locate(Offset(12), 10**6, Offset(20))
    log.truncate_to(Offset(10), NOW)
    assert across.load() == beyond.load() == b""
    fill(log, 20, value=b"other" * 10)
    # The file is as long as before, but what lies there is not what was located.
    assert across.load() == beyond.load() == b""
    assert before.load() == b"".join(written[:5])
    assert content(log.locate(Offset(0), 10**6, Offset(10))) == b"".join(written[:10])
