"""A producer was told that a batch is missing: whether that can be where logs lose their start."""

from dataclasses import replace

import pytest

from barnabas.base.ids import TopicPartition
from barnabas.sim.checkers.history import FADING, Trim
from barnabas.sim.checkers.violations import Final, Kind
from tests.sim.histories import UNKNOWN, Ideal, found

AT = TopicPartition(FADING, 0)


def without_first(final: Final, count: int) -> Final:
    (end,) = final.partitions
    return Final((replace(end, records=end.records[count:], log_start=count),))


@pytest.mark.parametrize(("deleted", "kinds"), [(2, [Kind.FORGOTTEN]), (3, []), (5, [])])
def test_what_was_there_with_a_later_one_may_be_deleted_by_now(
    deleted: int, kinds: list[Kind]
) -> None:
    ideal = Ideal()
    ideal.send(2, at=AT)
    ideal.send(1, at=AT, outcome=UNKNOWN).why = "out_of_order_sequence_number"
    ideal.send(2, at=AT, producer=2)
    ideal.done("admin", Trim(AT, deleted))
    assert found(ideal.history, without_first(ideal.final, deleted)) == kinds
