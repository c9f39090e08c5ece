"""The state of transactions while compaction reads a log, batch by batch.

The records of an aborted transaction go at once. An end marker stays as long as a batch of its
transaction was met before it, and then until its delete horizon has passed, so that a consumer that
began to read the records finds the marker too.
"""

from collections import deque
from collections.abc import Callable, Iterable

from barnabas.log.segment.transaction_index import AbortedTransaction
from barnabas.wire.records.batch import BatchHeader
from barnabas.wire.records.records import ControlType, read_marker


class CleanedTransactions:
    """Goes along with a reader of the log; every batch must be shown to it, in order."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """`aborted` are all that reach into what will be read, from wherever their markers lie."""
        self._coming = deque(sorted(aborted, key=lambda entry: entry.first_offset))
        self._aborted: dict[int, AbortedTransaction] = {}
        # Producers that have had a batch in a transaction whose marker is yet to come.
        self._with_aborted_batch: set[int] = set()
        self._with_batch: set[int] = set()
        self._kept: list[AbortedTransaction] = []

    def can_discard(self, header: BatchHeader, load: Callable[[], bytes]) -> bool:
        """True if the records of this batch are of an aborted transaction, or if it is a control
        batch and no batch of its transaction is left. `load` gives its bytes if they are needed.
        """
        while self._coming and self._coming[0].first_offset <= header.last_offset:
            entry = self._coming.popleft()
            self._aborted[entry.producer_id] = entry
        if header.is_control:
            return self._on_marker(header, load)
        return header.is_transactional and self._on_batch(header)

    def take_kept(self) -> list[AbortedTransaction]:
        """Those met since the last call that the cleaned log's transaction index has to hold."""
        kept, self._kept = self._kept, []
        return kept

    def _on_batch(self, header: BatchHeader) -> bool:
        aborted = self._aborted.get(header.producer_id)
        # An entry whose marker is gone must not reach into the producer's later transactions.
        if aborted is not None and header.last_offset < aborted.last_offset:
            self._with_aborted_batch.add(header.producer_id)
            return True
        self._with_batch.add(header.producer_id)
        return False

    def _on_marker(self, header: BatchHeader, load: Callable[[], bytes]) -> bool:
        marker = read_marker(load())
        if marker is None:
            return header.record_count == 0  # emptied before; of other kinds nothing is known
        producer_id = header.producer_id
        aborted = self._aborted.pop(producer_id, None)
        has_batch = producer_id in self._with_batch
        has_aborted_batch = producer_id in self._with_aborted_batch
        self._with_batch.discard(producer_id)
        self._with_aborted_batch.discard(producer_id)
        if marker.control_type is ControlType.ABORT and aborted and has_aborted_batch:
            self._kept.append(aborted)
        return not (has_batch or has_aborted_batch)
