"""Producer state against a naive model that scans the whole log for every answer."""

from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.log.producers.producer_snapshot import decode_snapshot
from barnabas.log.producers.producer_state import ProducerStates
from barnabas.log.producers.verification import UNGUARDED
from barnabas.wire.records.batch import CONTROL, NO_SEQUENCE, TRANSACTIONAL, BatchHeader

SEQUENCES = 2**31
DAY_MS = 86_400_000
Answer = ErrorCode | int | None  # refused, base offset of the first append, or accepted


class Logged(NamedTuple):
    """A batch of the model's log, at its base offset."""

    header: BatchHeader
    offset: int

    @property
    def sequences(self) -> tuple[int, int]:
        return self.header.base_sequence, self.header.last_sequence

    @property
    def end(self) -> int:
        return self.offset + self.header.last_offset_delta + 1


class NaiveLog:
    """All batches, and from which offset on they were seen one by one rather than by snapshot."""

    def __init__(self) -> None:
        self.batches: list[Logged] = []
        self.loaded_to = 0

    @property
    def end(self) -> int:
        return self.batches[-1].end if self.batches else 0

    def of(self, producer: int) -> list[Logged]:
        return [each for each in self.batches if each.header.producer_id == producer]

    def data_of(self, producer: int) -> list[Logged]:
        """The producer's batches of records in its latest epoch."""
        mine = self.of(producer)
        epoch = mine[-1].header.producer_epoch if mine else 0
        return [
            each
            for each in mine
            if not each.header.is_control and each.header.producer_epoch == epoch
        ]

    def remembered(self, producer: int) -> list[Logged]:
        data = self.data_of(producer)
        by_snapshot = [each for each in data if each.offset < self.loaded_to][-1:]
        return [*by_snapshot, *(each for each in data if each.offset >= self.loaded_to)][-5:]

    def next_sequence(self, producer: int) -> int:
        data = self.data_of(producer)
        return (data[-1].sequences[1] + 1) % SEQUENCES if data else 0

    def transaction(self, producer: int) -> int | None:
        """Where the producer's undecided transaction begins."""
        first = None
        for each in self.of(producer):
            if each.header.is_control:
                first = None
            elif each.header.is_transactional and first is None:
                first = each.offset
        return first

    def answer(self, header: BatchHeader) -> Answer:
        mine = self.of(header.producer_id)
        if not mine:
            return None
        epoch = mine[-1].header.producer_epoch
        if header.producer_epoch < epoch:
            return ErrorCode.invalid_producer_epoch
        if header.producer_epoch > epoch:
            expected = 0
        else:
            for each in self.remembered(header.producer_id):
                if each.sequences == (header.base_sequence, header.last_sequence):
                    return each.offset
            expected = self.next_sequence(header.producer_id)
        if header.base_sequence != expected:
            return ErrorCode.out_of_order_sequence_number
        if self.transaction(header.producer_id) is not None and not header.is_transactional:
            return ErrorCode.invalid_txn_state
        return None


PRODUCERS = (1, 2)
producers = st.sampled_from(PRODUCERS)


class ProducersAgainstTheModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.states = ProducerStates(DAY_MS)
        self.log = NaiveLog()
        self.snapshots: dict[int, bytes] = {}
        self.high_watermark = 0

    def send(self, header: BatchHeader) -> None:
        expected = self.log.answer(header)
        answer: Answer
        try:
            before = self.states.check(header, UNGUARDED)
            answer = before.base_offset if before else None
        except BrokerError as error:
            answer = error.code
        assert answer == expected
        if answer is None:
            self.states.apply(header, self.log.end, 0)
            self.log.batches.append(Logged(header, self.log.end))

    @rule(
        producer=producers,
        counts=st.lists(st.integers(1, 4), min_size=1, max_size=7),
        transactional=st.booleans(),
    )
    def the_next_batches(self, producer: int, counts: list[int], transactional: bool) -> None:
        for count in counts:
            mine = self.log.of(producer)
            sequence = self.log.next_sequence(producer) if mine else SEQUENCES - 6
            epoch = mine[-1].header.producer_epoch if mine else 0
            self.send(data(producer, epoch, sequence, count, transactional))

    @rule(
        producer=producers,
        step=st.integers(-1, 1),
        shift=st.integers(-3, 3) | st.none(),
        count=st.integers(1, 4),
        transactional=st.booleans(),
    )
    def a_batch_out_of_order(
        self, producer: int, step: int, shift: int | None, count: int, transactional: bool
    ) -> None:
        mine = self.log.of(producer)
        epoch = mine[-1].header.producer_epoch if mine else 1
        expected = self.log.next_sequence(producer)
        sequence = 0 if shift is None else (expected + shift) % SEQUENCES
        self.send(data(producer, max(0, epoch + step), sequence, count, transactional))

    @rule(producer=producers, back=st.integers(1, 7))
    def a_retry(self, producer: int, back: int) -> None:
        sent = [each for each in self.log.of(producer) if not each.header.is_control]
        if len(sent) >= back:
            self.send(sent[-back].header)

    @rule(producer=producers, bump=st.booleans(), aborted=st.booleans())
    def an_end_marker(self, producer: int, bump: bool, aborted: bool) -> None:
        mine = self.log.of(producer)
        epoch = (mine[-1].header.producer_epoch if mine else 0) + bump
        began, offset = self.log.transaction(producer), self.log.end
        header = batch(producer, epoch, NO_SEQUENCE, 1, TRANSACTIONAL | CONTROL)
        self.states.check_marker(header, 0)
        completed = self.states.apply_marker(
            header, offset, 0, coordinator_epoch=0, aborted=aborted
        )
        self.log.batches.append(Logged(header, offset))
        assert (completed.first_offset if completed else None) == began
        if completed:
            undecided = self.undecided()
            assert completed.last_stable_offset == min(undecided, default=offset + 1)

    @rule()
    def take_a_snapshot(self) -> None:
        self.snapshots[self.log.end] = self.states.to_snapshot()

    @rule(drop=st.integers(0, 4))
    def truncate(self, drop: int) -> None:
        self.log.batches = self.log.batches[: max(0, len(self.log.batches) - drop)]
        self.high_watermark = min(self.high_watermark, self.log.end)
        self.snapshots = {k: v for k, v in self.snapshots.items() if k <= self.log.end}
        self.log.loaded_to = max(self.snapshots, default=0)
        self.states.clear()
        if self.snapshots:
            self.states.load_snapshot(self.snapshots[self.log.loaded_to], 0)
        for header, offset in self.log.batches:
            if offset >= self.log.loaded_to:
                self.replay(self.states, header, offset)
        # A reload takes for replicated what a snapshot completed.
        self.states.on_high_watermark(self.log.end)
        self.high_watermark = self.log.end

    @rule(share=st.floats(0, 1))
    def advance_the_high_watermark(self, share: float) -> None:
        self.high_watermark += int(share * (self.log.end - self.high_watermark))
        self.states.on_high_watermark(self.high_watermark)

    def replay(self, states: ProducerStates, header: BatchHeader, offset: int) -> None:
        if header.is_control:
            states.apply_marker(header, offset, 0, coordinator_epoch=0, aborted=False)
        else:
            states.apply(header, offset, 0)

    def undecided(self) -> list[int]:
        starts = [self.log.transaction(producer) for producer in PRODUCERS]
        return [start for start in starts if start is not None]

    @invariant()
    def the_first_undecided_offset_is_the_oldest_open_transaction(self) -> None:
        assert self.states.first_undecided_offset == min(self.undecided(), default=None)

    @invariant()
    def the_first_unstable_offset_is_the_oldest_without_a_replicated_marker(self) -> None:
        visible = NaiveLog()
        visible.batches = [
            each
            for each in self.log.batches
            if not each.header.is_control or each.offset < self.high_watermark
        ]
        starts = [visible.transaction(producer) for producer in PRODUCERS]
        unstable = min((start for start in starts if start is not None), default=None)
        assert self.states.first_unstable_offset == unstable

    @invariant()
    def the_state_is_a_function_of_the_log(self) -> None:
        fresh = ProducerStates(DAY_MS)
        for header, offset in self.log.batches:
            self.replay(fresh, header, offset)
        mine, theirs = self.states.to_snapshot(), fresh.to_snapshot()
        assert sorted(decode_snapshot(mine)) == sorted(decode_snapshot(theirs))


def batch(producer: int, epoch: int, sequence: int, count: int, attributes: int) -> BatchHeader:
    return BatchHeader(
        0, 49, 0, 2, 0, attributes, count - 1, 0, 0, producer, epoch, sequence, count
    )


def data(producer: int, epoch: int, sequence: int, count: int, transactional: bool) -> BatchHeader:
    return batch(producer, epoch, sequence, count, TRANSACTIONAL if transactional else 0)


TestProducersAgainstTheModel = ProducersAgainstTheModel.TestCase
TestProducersAgainstTheModel.settings = settings(
    max_examples=150, stateful_step_count=30, deadline=None
)
