"""Leader epochs: what is remembered, what is answered, what truncation removes."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.errors import LawBroken
from barnabas.base.ids import NO_LEADER_EPOCH
from barnabas.log.leader_epochs import UNDEFINED, EpochEnd, EpochEntry, LeaderEpochs


def epochs_of(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(EpochEntry(*each) for each in entries)


def test_a_log_without_records_knows_no_epoch() -> None:
    epochs = LeaderEpochs()
    assert epochs.latest == NO_LEADER_EPOCH
    assert epochs.entries == ()
    assert epochs.end_offset_for(0, 0) == UNDEFINED
    assert epochs.epoch_for_offset(0) == NO_LEADER_EPOCH


def test_only_the_first_append_of_an_epoch_changes_the_entries() -> None:
    epochs = LeaderEpochs()
    assert epochs.assign(2, 10)
    assert not epochs.assign(2, 10)
    assert not epochs.assign(2, 25)
    assert epochs.assign(4, 30)
    assert epochs.entries == (EpochEntry(2, 10), EpochEntry(4, 30))
    assert epochs.latest == 4


@pytest.mark.parametrize(
    ("conflicting", "left"),
    [
        ((4, 30), [(2, 10), (4, 30)]),  # epoch 3 wrote nothing
        ((4, 20), [(2, 10), (4, 20)]),  # what epoch 3 wrote was written again
        ((4, 10), [(4, 10)]),
        ((3, 20), [(2, 10), (3, 20)]),
        ((1, 40), [(1, 40)]),  # an older epoch after newer ones
        ((2, 40), [(2, 40)]),
    ],
)
def test_entries_that_contradict_a_new_one_are_removed(
    conflicting: tuple[int, int], left: list[tuple[int, int]]
) -> None:
    epochs = epochs_of((2, 10), (3, 30))
    assert epochs.assign(*conflicting)
    assert list(epochs.entries) == left
    assert epochs.latest == left[-1][0]


@pytest.mark.parametrize(("epoch", "start_offset"), [(-1, 0), (0, -1)])
def test_a_negative_epoch_or_offset_breaks_a_law_and_leaves_the_entries(
    epoch: int, start_offset: int
) -> None:
    epochs = epochs_of((2, 10))
    with pytest.raises(LawBroken, match="EPOCH-1"):
        epochs.assign(epoch, start_offset)
    assert epochs.entries == (EpochEntry(2, 10),)
    with pytest.raises(LawBroken, match="EPOCH-1"):
        LeaderEpochs().assign(epoch, start_offset)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),  # asked without an epoch
        (1, (1, 10)),  # its records are gone: as itself, up to the first known
        (2, (2, 30)),
        (3, (2, 30)),  # never led here: the greatest below (KIP-279)
        (4, (4, 50)),
        (6, (4, 50)),
        (7, (7, 99)),  # the latest ends with the log
        (8, (-1, -1)),  # never heard of
    ],
)
def test_an_epoch_ends_where_the_next_known_one_begins(asked: int, answer: tuple[int, int]) -> None:
    epochs = epochs_of((2, 10), (4, 30), (7, 50))
    assert epochs.end_offset_for(asked, 99) == answer


@pytest.mark.parametrize(
    ("offset", "epoch"), [(9, -1), (10, 2), (29, 2), (30, 4), (49, 4), (50, 7), (1000, 7)]
)
def test_every_offset_belongs_to_the_epoch_that_wrote_it(offset: int, epoch: int) -> None:
    assert epochs_of((2, 10), (4, 30), (7, 50)).epoch_for_offset(offset) == epoch


@pytest.mark.parametrize(
    ("end", "left"),
    [
        (51, [(2, 10), (4, 30), (7, 50)]),
        (50, [(2, 10), (4, 30)]),
        (31, [(2, 10), (4, 30)]),
        (30, [(2, 10)]),
        (10, []),
        (0, []),
    ],
)
def test_truncating_the_end_forgets_epochs_that_begin_there_or_beyond(
    end: int, left: list[tuple[int, int]]
) -> None:
    epochs = epochs_of((2, 10), (4, 30), (7, 50))
    assert epochs.truncate_from_end(end) == (len(left) < 3)
    assert list(epochs.entries) == left
    assert not epochs.truncate_from_end(end)
    assert epochs.latest == (left[-1][0] if left else NO_LEADER_EPOCH)


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (0, [(2, 10), (4, 30), (7, 50)]),
        (10, [(2, 10), (4, 30), (7, 50)]),
        (20, [(2, 20), (4, 30), (7, 50)]),
        (30, [(4, 30), (7, 50)]),
        (49, [(4, 49), (7, 50)]),
        (80, [(7, 80)]),
    ],
)
def test_truncating_the_start_moves_the_epoch_that_holds_it(
    start: int, left: list[tuple[int, int]]
) -> None:
    epochs = epochs_of((2, 10), (4, 30), (7, 50))
    assert epochs.truncate_from_start(start) == (start > 10)
    assert list(epochs.entries) == left
    assert not epochs.truncate_from_start(start)


def test_after_truncation_the_remaining_epoch_goes_on_without_a_new_EpochEntry() -> None:
    epochs = epochs_of((2, 10), (4, 30))
    epochs.truncate_from_end(20)
    assert not epochs.assign(2, 20)
    epochs.truncate_from_start(15)
    assert not epochs.assign(2, 21)
    assert epochs.assign(5, 22)
    assert epochs.entries == (EpochEntry(2, 15), EpochEntry(5, 22))


changes = st.lists(
    st.tuples(st.sampled_from(["assign", "end", "start"]), st.integers(0, 8), st.integers(0, 40)),
    max_size=25,
)


@given(changes)
def test_entries_always_rise_and_the_answers_agree_with_them(
    steps: list[tuple[str, int, int]],
) -> None:
    epochs = LeaderEpochs()
    for kind, epoch, offset in steps:
        before = epochs.entries
        if kind == "assign":
            changed = epochs.assign(epoch, offset)
        elif kind == "end":
            changed = epochs.truncate_from_end(offset)
        else:
            changed = epochs.truncate_from_start(offset)
        assert changed == (epochs.entries != before)
        assert_consistent(epochs)


def assert_consistent(epochs: LeaderEpochs) -> None:
    entries = epochs.entries
    for lower, higher in pairwise(entries):
        assert lower.epoch < higher.epoch
        assert lower.start_offset < higher.start_offset
    assert epochs.latest == (entries[-1].epoch if entries else NO_LEADER_EPOCH)
    for offset in range(41):
        holders = [each.epoch for each in entries if each.start_offset <= offset]
        assert epochs.epoch_for_offset(offset) == max(holders, default=NO_LEADER_EPOCH)
    for asked in range(10):
        assert epochs.end_offset_for(asked, 41) == naive_end(entries, asked)


def naive_end(entries: tuple[EpochEntry, ...], asked: int) -> EpochEnd:
    if all(each.epoch < asked for each in entries):
        return UNDEFINED
    found = max((each.epoch for each in entries if each.epoch <= asked), default=asked)
    end = min((each.start_offset for each in entries if each.epoch > asked), default=41)
    return EpochEnd(found, end)
