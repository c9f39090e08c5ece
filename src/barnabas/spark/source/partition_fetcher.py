"""Batches of one partition, from its leader wherever that is, one request ahead.

The next records are asked for before the last ones are decoded, so broker and task work at the
same time. A leader that changed is looked for; a broker that is gone is waited for, as long as
`kafka.default.api.timeout.ms`. Offsets that are not there any more end the read with an error, or
are passed over, as `failOnDataLoss` says.
"""

import contextlib
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

from barnabas.base.clock import machine_stopwatch
from barnabas.base.errors import BrokerError, ErrorCode, PeerGone
from barnabas.spark.blocking_connection import Connection, api_timeout_s, connect
from barnabas.spark.source.aborted_batches import Batches, committed
from barnabas.spark.source.offset_ranges import OffsetRange
from barnabas.spark.source.source_options import EARLIEST, LATEST, SourceOptions
from barnabas.spark.source.topic_id_fetch import Fetched, Limits, Malformed, read_fetch, write_fetch
from barnabas.spark.user_errors import DataLoss, SparkFailure
from barnabas.wire.records.batch import BatchHeader, headers

_FETCH_BYTES: Final = 4 * 1024 * 1024
_PAUSE_S: Final = 0.1
_NS_PER_S: Final = 1e9

# What a broker answers that does not lead the partition, or not yet, or not any more.
_MOVED: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.unknown_topic_id,
        ErrorCode.inconsistent_topic_id,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.kafka_storage_error,
        ErrorCode.replica_not_available,
        ErrorCode.offset_not_available,
    }
)
_MOVED_CODES: Final = frozenset(int(code) for code in _MOVED)
_OUT_OF_RANGE: Final = int(ErrorCode.offset_out_of_range)


class PartitionFetcher:
    """Iterates over lists of batches until the range is read; a list is valid until the next."""

    def __init__(self, wanted: OffsetRange, options: SourceOptions) -> None:
        self._wanted = wanted
        self._options = options
        # Where the log begins, if that is after the range's own start; a batch may begin before.
        self.start = self._position = wanted.start
        self._leader = wanted.leader
        self._connection: Connection | None = None
        self._asked = False
        self._limits = Limits(
            max_bytes=options.property_number("max.partition.fetch.bytes", _FETCH_BYTES),
            read_committed=options.read_committed,
        )
        self._last_progress = machine_stopwatch()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, at: TracebackType | None
    ) -> None:
        self._disconnect()

    def __iter__(self) -> Iterator[Batches]:
        """Raises  DataLoss or SparkFailure, with what is wrong and what to do"""
        while self._position < self._wanted.end:
            try:
                fetched = self._fetch()
            except (PeerGone, Malformed) as failure:
                self._look_again(str(failure))
                continue
            if fetched.error == _OUT_OF_RANGE:
                self._skip_what_is_gone()
            elif fetched.error in _MOVED_CODES:
                self._look_again(_name(fetched.error))
            elif fetched.error:
                raise SparkFailure(
                    f"partition {self._wanted.partition} cannot be read: the broker at"
                    f" {self._broker} answers {_name(fetched.error)}"
                )
            elif batches := self._take(fetched):
                yield batches
                # How long these took others does not count against the broker.
                self._last_progress = machine_stopwatch()

    # -- asking --------------------------------------------------------------

    def _fetch(self) -> Fetched:
        if self._connection is None:
            if self._leader is None:
                raise PeerGone("nobody leads it")
            self._connection = connect(self._leader.host, self._leader.port, self._options)
        if not self._asked:
            self._ask()
        self._asked = False
        return read_fetch(self._connection.receive())

    def _ask(self) -> None:
        assert self._connection is not None
        assert self._leader is not None
        wanted = self._wanted
        self._connection.send(
            write_fetch(
                wanted.topic_id,
                wanted.partition.partition,
                self._position,
                self._leader.epoch,
                self._limits,
            )
        )
        self._asked = True

    def _take(self, fetched: Fetched) -> Batches:
        """What of the answer is to be decoded; the request after it is already sent."""
        whole = self._whole_batches(fetched.records)
        if not whole:
            self._wait_for_more(fetched)
            return []
        self._last_progress = machine_stopwatch()
        self._position = max(self._position, whole[-1][1].next_offset)
        if self._position < self._wanted.end:
            with contextlib.suppress(PeerGone):  # it is asked again, or another one, in its turn
                self._ask()
        batches = [
            (header, fetched.records[position : position + header.size])
            for position, header in whole
            if header.base_offset < self._wanted.end
        ]
        if self._limits.read_committed:
            return committed(batches, fetched.aborted)
        return [each for each in batches if not each[0].is_control]

    def _whole_batches(self, records: memoryview) -> list[tuple[int, BatchHeader]]:
        try:
            return list(headers(records))
        except BrokerError as damaged:
            raise SparkFailure(
                f"what follows offset {self._position} of {self._wanted.partition} cannot be read:"
                f" {damaged}"
            ) from None

    # -- what goes wrong -----------------------------------------------------

    def _look_again(self, why: str) -> None:
        """Find out who leads now. Raises SparkFailure, if nothing came for too long."""
        from barnabas.spark.spark_cluster import (  # is not needed where all goes well
            Cluster,
            Unsettled,
        )

        self._disconnect()
        self._pause_unless_late(why)
        try:
            with Cluster(self._options) as cluster:
                self._leader = cluster.leader(self._wanted.partition, self._wanted.topic_id)
        except (PeerGone, Unsettled):
            self._leader = None

    def _wait_for_more(self, fetched: Fetched) -> None:
        end = fetched.last_stable_offset if self._limits.read_committed else fetched.high_watermark
        if self._late():
            self._lose(
                f"it ends at offset {end}, though offsets to {self._wanted.end} were there before"
            )
            self._position = self._wanted.end

    def _skip_what_is_gone(self) -> None:
        from barnabas.spark.spark_cluster import Cluster

        partition = self._wanted.partition
        with Cluster(self._options) as cluster:
            earliest = cluster.offsets({partition: EARLIEST})[partition].offset
            latest = cluster.offsets({partition: LATEST})[partition].offset
        if earliest <= self._position <= latest:  # it came back meanwhile
            self._pause_unless_late(f"offset {self._position} is out of range")
            return
        self._lose(
            f"offset {self._position} is gone, the log now has offsets {earliest} to {latest}"
        )
        if earliest > self._position:
            self.start = self._position = earliest
        else:
            self._position = self._wanted.end

    def _lose(self, what: str) -> None:
        """Raises  DataLoss, unless the user said to go on"""
        if self._options.fail_on_data_loss:
            raise DataLoss(
                f"records of {self._wanted.partition} are lost: {what}; to go on without them,"
                " set failOnDataLoss to false"
            )

    def _pause_unless_late(self, why: str) -> None:
        if self._late():
            raise SparkFailure(
                f"partition {self._wanted.partition} cannot be read at offset {self._position}:"
                f" {why}; see whether its brokers run"
            )
        threading.Event().wait(_PAUSE_S)

    def _late(self) -> bool:
        return machine_stopwatch() - self._last_progress > api_timeout_s(self._options) * _NS_PER_S

    @property
    def _broker(self) -> str:
        return f"{self._leader.host}:{self._leader.port}" if self._leader else "?"

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._asked = False


def _name(code: int) -> str:
    """Kafka's name of an error, if it is one that is known here."""
    return next((each.name.upper() for each in ErrorCode if each.value == code), f"error {code}")
