"""The read_committed filter: drops batches of aborted transactions."""

from collections.abc import Sequence

from barnabas.wire.records.batch import BatchHeader
from barnabas.wire.records.records import ControlType, read_marker

Batches = list[tuple[BatchHeader, memoryview]]


def committed(batches: Batches, aborted: Sequence[tuple[int, int]]) -> Batches:
    """Return the batches that a read_committed reader sees, without control batches.

    With the records, the broker sends the aborted transactions: producer id and first offset. The
    batches of such a producer, from that offset up to its abort marker, are dropped.
    """
    coming = sorted(aborted, key=lambda each: each[1], reverse=True)
    aborting: set[int] = set()
    seen = []
    for header, batch in batches:
        while coming and coming[-1][1] <= header.last_offset:
            aborting.add(coming.pop()[0])
        if header.is_control:
            marker = read_marker(batch)
            if marker is not None and marker.control_type is ControlType.ABORT:
                aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            seen.append((header, batch))
    return seen
