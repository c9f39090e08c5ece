"""`barnabas pipeline table --continuous` without Spark: when it looks, writes and tries again."""

from types import SimpleNamespace
from typing import Any, Final

import pytest

from barnabas.base.ids import TopicPartition
from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.archive.archive_source import PartitionRange
from barnabas.spark.table.table_command import _TableRun
from barnabas.spark.table.table_run import TableStep
from barnabas.spark.table_log.table_state import TableDefinition, TableState

STEP: Final = 10


class Writer:
    """A table of a topic that grows, or fails, each time that the command looks at it."""

    def __init__(self, *looks: int | Exception) -> None:
        self.state = TableState(TableDefinition("t"))
        self.snapshot = None
        self.is_unfinished = False
        self.written: list[int] = []
        self._looks = list(looks)
        self._lag = 0

    def _look(self) -> None:
        if not self._looks:
            raise KeyboardInterrupt
        found = self._looks.pop(0)
        if isinstance(found, Exception):
            raise found
        self._lag += found

    def uncovered(self) -> tuple[None, list[PartitionRange]]:
        self._look()
        return None, [PartitionRange(TopicPartition("t", 0), 0, self._lag)]

    def step(self, spark: Any) -> TableStep | None:
        self._look()
        if not self._lag:
            return None
        wrote = min(self._lag, STEP)
        self._lag -= wrote
        self.written.append(wrote)
        return TableStep(wrote, 0, self._lag)


def run(writer: Any, max_lag: int = 0, every_s: float | None = 0.001) -> None:
    upkeep: Any = SimpleNamespace(run=lambda spark, snapshot: (snapshot, 0))
    spark: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda name: ""))
    unused: Any = None
    _TableRun(writer, upkeep, unused, unused).write(spark, every_s, max_lag)


def test_it_writes_all_at_first_and_then_once_more_than_the_lag_is_new() -> None:
    #            all at first | none new, as many as are allowed, one more
    writer = Writer(15, 0, 0, 0, 7, 1, 0)
    with pytest.raises(KeyboardInterrupt):
        run(writer, max_lag=7)
    assert writer.written == [10, 5, 8]


def test_a_failure_of_the_first_step_ends_it() -> None:
    writer = Writer(CommandFailed("the schema is wrong"))
    with pytest.raises(CommandFailed):
        run(writer)


def test_later_failures_are_tried_again_though_it_has_not_caught_up(
    capsys: pytest.CaptureFixture[str],
) -> None:
    gone = CommandFailed("there is no leader")
    writer = Writer(25, gone, 0, gone, 0, 0, 0)
    with pytest.raises(KeyboardInterrupt):
        run(writer)
    assert writer.written == [10, 10, 5]
    assert capsys.readouterr().err == "there is no leader; trying again\n"


def test_a_topic_that_grows_during_each_step_is_written_up_to_now() -> None:
    """Once, or at each interval: not step after step without end."""
    once = Writer(15, 1)
    run(once, every_s=None)
    assert once.written == [10, 6]
    always = Writer(15, 1, 0, 1, 1, 1, 1)
    with pytest.raises(KeyboardInterrupt):
        run(always)
    assert always.written == [10, 6, 2, 2]
