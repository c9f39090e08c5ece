"""A truncation at the very end of a cleaning: what comes in place of the cut is dirty."""

from collections.abc import Callable
from pathlib import Path

from barnabas.base.ids import Offset
from barnabas.log.log import Log
from tests.log.batches import NOW
from tests.server.test_cleaning import Setting, on_a_loop


@on_a_loop
async def test_a_log_cut_while_the_last_swap_is_synced_is_dirty_from_there_on(
    tmp_path: Path,
) -> None:
    whole = Setting(tmp_path / "whole")
    assert await whole.clean_once()
    for step in range(whole.offload.steps - 6, whole.offload.steps + 1):
        here = Setting(tmp_path / str(step))
        log = here.log()
        here.offload.at[step] = cut_of(log)
        assert await here.clean_once()
        assert log.log_end_offset <= 30
        assert log.first_dirty_offset is None or log.first_dirty_offset <= log.log_end_offset


def cut_of(log: Log) -> Callable[[], object]:
    return lambda: log.truncate_to(Offset(30), NOW)
