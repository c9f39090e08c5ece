"""Out-of-order errors after the deletion of old records."""

from dataclasses import replace

import pytest

from barnabas.base.ids import TopicPartition
from barnabas.sim.checkers.history import FADING, Trim
from barnabas.sim.checkers.violations import FinalState, ViolationKind
from tests.sim.histories import UNKNOWN, Ideal, found

AT = TopicPartition(FADING, 0)


def without_first(final: FinalState, count: int) -> FinalState:
    (end,) = final.partitions
    return FinalState((replace(end, records=end.records[count:], log_start=count),))


@pytest.mark.parametrize(("deleted", "kinds"), [(2, [ViolationKind.FORGOTTEN]), (3, []), (5, [])])
def test_a_producers_last_batch_may_have_been_deleted(
    deleted: int, kinds: list[ViolationKind]
) -> None:
    ideal = Ideal()
    ideal.send(2, at=AT)
    ideal.send(1, at=AT, outcome=UNKNOWN).why = "out_of_order_sequence_number"
    ideal.send(2, at=AT, producer=2)
    ideal.done("admin", Trim(AT, deleted))
    assert found(ideal.history, without_first(ideal.final, deleted)) == kinds
