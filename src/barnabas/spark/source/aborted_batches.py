"""Which batches belong to aborted transactions, for `kafka.isolation.level=read_committed`."""

from collections.abc import Sequence

from barnabas.wire.records.batch import BatchHeader
from barnabas.wire.records.records import ControlType, read_marker

Batches = list[tuple[BatchHeader, memoryview]]


def committed(batches: Batches, aborted: Sequence[tuple[int, int]]) -> Batches:
    """Those of `batches` that a reader of committed records sees; no control batches.

    A broker tells with the records which producers began, at which offset, a transaction that was
    aborted. All that such a producer wrote from there on, up to its abort marker, is left out.
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
