"""The checks of a follower on the batches that its leader sent."""

from collections.abc import Callable, Iterator, Sequence

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.wire.records.batch import MAGIC, BatchHeader, check_crc, headers
from barnabas.wire.records.compression import Codec
from barnabas.wire.records.unreadable_batches import why_unreadable


class UnexpectedOffset(BrokerError):
    """Batches begin before the end of the log; a log without other records can begin there."""

    def __init__(self, message: str, first: BatchHeader) -> None:
        super().__init__(ErrorCode.corrupt_message, message)
        self.first = first


def check_order(
    found: Sequence[tuple[int, BatchHeader]], directory: str, next_offset: int, epoch: int
) -> None:
    """Check that offsets and epochs never fall; offsets may have gaps where the leader compacted.

    Raises  UnexpectedOffset, BrokerError(corrupt_message)
    """
    for _, header in found:
        if header.base_offset < next_offset or header.leader_epoch < epoch:
            what = (
                f"{directory} ends at {next_offset} in leader epoch {epoch}; a batch at "
                f"{header.base_offset} in epoch {header.leader_epoch} cannot follow"
            )
            if header.base_offset < next_offset:
                raise UnexpectedOffset(what, found[0][1])
            raise BrokerError(ErrorCode.corrupt_message, what)
        next_offset, epoch = header.next_offset, header.leader_epoch


def checked_batches(
    records: memoryview,
    leader_epoch: int,
    at_most: int,
    on_unreadable: Callable[[BatchHeader, str], None] = lambda header, why: None,
) -> Iterator[memoryview]:
    """Whole batches in a row whose CRCs are right, about `at_most` bytes at a time.

    The loop thus never appends ten megabytes at once. A cut last batch is left out. A batch that
    consumers cannot read is reported and yielded: an older leader has acknowledged it. Compressed
    ones are not looked into.

    Raises  BrokerError(corrupt_message) at the first that is damaged, or of an epoch that the
            leader of `leader_epoch` cannot have; after yielding those before it
    """
    start = end = 0
    try:
        for position, header in headers(records):
            size = header.size
            batch = records[position : position + size]
            if header.magic != MAGIC or not check_crc(batch):
                raise _corrupt(f"the batch at offset {header.base_offset} is damaged")
            if header.leader_epoch > leader_epoch:
                raise _corrupt(f"a batch of epoch {header.leader_epoch}, beyond {leader_epoch}")
            if header.codec == Codec.NONE:
                why = why_unreadable(batch, header)
                if why is not None:
                    on_unreadable(header, why)
            if position + size - start > at_most and end > start:
                yield records[start:end]
                start = end
            end = position + size
    except BrokerError:
        if end > start:
            yield records[start:end]
        raise
    if end > start:
        yield records[start:end]


def _corrupt(why: str) -> BrokerError:
    return BrokerError(ErrorCode.corrupt_message, why)
