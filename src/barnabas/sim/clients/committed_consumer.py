"""A simulated consumer with `isolation.level=read_committed`, also inside of a transaction."""

from barnabas.base.errors import ErrorCode
from barnabas.client.aborted_batches import committed
from barnabas.client.fetch import FetchedPartition
from barnabas.client.retries import STALE_LEADER
from barnabas.sim.checkers.history import (
    ClientOperation,
    OperationOutcome,
    Poll,
    value_of,
)
from barnabas.sim.checkers.transaction_operations import OUTSIDE, CommittedPoll, CommittedPolled
from barnabas.sim.clients.consumer_client import Consumer
from barnabas.wire.records.batch import check_crc, headers
from barnabas.wire.records.records import read_records

_E = ErrorCode


class CommittedConsumer(Consumer):
    """Reads what committed transactions wrote; `transaction` is the one that reads."""

    read_committed = True
    transaction = OUTSIDE

    def _take(self, asked: Poll, fetched: FetchedPartition, began: float) -> int:
        if fetched.error in STALE_LEADER:
            return -1
        if self.positions.get(asked.at) != asked.position:
            return 0  # assigned again since
        if fetched.error is not _E.none:
            self._record(asked, began, None, fetched.error.name)
            return -1
        self.high_watermarks[asked.at] = fetched.high_watermark
        decoded = decode_committed(fetched, asked.position)
        if decoded is None:
            self._record(asked, began, None, "corrupt")
            return -1
        records, next_position = decoded
        if next_position > asked.position:
            self._record(asked, began, CommittedPolled(tuple(records), next_position))
        self.positions[asked.at] = next_position
        return len(records)

    def _record(
        self, asked: Poll, began: float, got: CommittedPolled | None, why: str = ""
    ) -> ClientOperation:
        poll = CommittedPoll(self.transaction, asked.at, asked.position)
        operation = self._history.begin(self.connections.name, poll, began)
        outcome = OperationOutcome.FAILED if got is None else OperationOutcome.OK
        self._history.end(operation, outcome, got, why)
        return operation


def decode_committed(
    fetched: FetchedPartition, position: int
) -> tuple[list[tuple[int, int]], int] | None:
    """Offset and value of each committed record, and the next position; None if damaged."""
    batches, next_position = [], position
    for start, header in headers(fetched.records):
        batch = fetched.records[start : start + header.size]
        if not check_crc(batch):
            return None
        batches.append((header, batch))
        next_position = max(next_position, header.next_offset)
    found = [
        (record.offset, value_of(record.value))
        for _, batch in committed(batches, fetched.aborted)
        for record in read_records(batch)
        if record.offset >= position
    ]
    return found, next_position
