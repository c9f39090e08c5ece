"""Out-of-order errors after records were deleted or compacted."""

from dataclasses import replace

import pytest

from barnabas.base.ids import TopicPartition
from barnabas.sim.checkers.history import COMPACTED, FADING, Trim
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


@pytest.mark.parametrize(("later", "kinds"), [(0, [ViolationKind.FORGOTTEN]), (1, [])])
def test_a_producers_later_batch_may_have_been_compacted(
    later: int, kinds: list[ViolationKind]
) -> None:
    """The batch was in the log before: a restarted broker knows the later one alone."""
    ideal, at = Ideal(), TopicPartition(COMPACTED, 0)
    ideal.send(2, at=at)
    sent = ideal.send(1, at=at, outcome=UNKNOWN, is_there=False)
    sent.why = "out_of_order_sequence_number"
    for _ in range(later):
        ideal.send(1, at=at, outcome=UNKNOWN, is_there=False)
    assert found(ideal.history, ideal.final) == kinds
