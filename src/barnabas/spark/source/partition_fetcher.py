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
from barnabas.client.aborted_batches import Batches, committed
from barnabas.client.blocking_connection import BlockingConnection
from barnabas.client.fetch import Fetch, FetchedPartition, read_fetch_response, write_fetch_request
from barnabas.client.frames import MalformedResponse
from barnabas.client.retries import STALE_LEADER, RetriableError
from barnabas.client.versions import PORTABLE
from barnabas.spark.broker_connection import api_timeout_s, connect, security_of
from barnabas.spark.source.offset_ranges import OffsetRange
from barnabas.spark.source.source_options import EARLIEST, LATEST, SourceOptions
from barnabas.spark.spark_cluster import SparkCluster
from barnabas.spark.user_errors import DataLoss, SparkFailure
from barnabas.wire.apis import ApiKey
from barnabas.wire.fetch.fetch_codec import FetchPartition, FetchTopic
from barnabas.wire.records.batch import BatchHeader, headers

_FETCH_BYTES: Final = 4 * 1024 * 1024
_MAX_WAIT_MS: Final = 500
_PAUSE_S: Final = 0.1
_NS_PER_S: Final = 1e9
_VERSION: Final = PORTABLE[ApiKey.FETCH]


class PartitionFetcher:
    """Iterates over lists of batches until the range is read; a list is valid until the next."""

    def __init__(self, wanted: OffsetRange, options: SourceOptions) -> None:
        self._wanted = wanted
        self._options = options
        # Where the log begins, if that is after the range's own start; a batch may begin before.
        self.start = self._position = wanted.start
        self._leader = wanted.leader
        self._security = security_of(options)
        self._connection: BlockingConnection | None = None
        self._asked = False
        self._max_bytes = options.property_number("max.partition.fetch.bytes", _FETCH_BYTES)
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
            except (PeerGone, MalformedResponse) as failure:
                self._look_again(str(failure))
                continue
            if fetched.error is ErrorCode.offset_out_of_range:
                self._skip_what_is_gone()
            elif fetched.error in STALE_LEADER:
                self._look_again(fetched.error.name.upper())
            elif fetched.error is not ErrorCode.none:
                raise SparkFailure(
                    f"partition {self._wanted.partition} cannot be read: the broker at"
                    f" {self._broker} answers {fetched.error.name.upper()}"
                )
            elif batches := self._take(fetched):
                yield batches
                # How long these took others does not count against the broker.
                self._last_progress = machine_stopwatch()

    # -- asking --------------------------------------------------------------

    def _fetch(self) -> FetchedPartition:
        if self._connection is None:
            if self._leader is None:
                raise PeerGone("nobody leads it")
            self._connection = connect(
                self._leader.host, self._leader.port, self._options, self._security
            )
        if not self._asked:
            self._ask()
        self._asked = False
        response = read_fetch_response(_VERSION, self._connection.receive())
        if not response.partitions:
            return _refused(response.error)
        return response.partitions[0]

    def _ask(self) -> None:
        assert self._connection is not None
        assert self._leader is not None
        client_id, fetch = self._connection.client_id, self._request(self._leader.epoch)
        self._connection.send(
            lambda number: write_fetch_request(_VERSION, number, client_id, fetch)
        )
        self._asked = True

    def _request(self, leader_epoch: int) -> Fetch:
        number = self._wanted.partition.partition
        partition = FetchPartition(number, self._position, self._max_bytes, leader_epoch)
        return Fetch(
            max_wait_ms=_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=self._max_bytes,
            topics=[FetchTopic(None, self._wanted.topic_id, [partition])],
            read_committed=self._options.read_committed,
        )

    def _take(self, fetched: FetchedPartition) -> Batches:
        """The part of the response to decode; the request after it is already sent."""
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
        if self._options.read_committed:
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
        self._disconnect()
        self._pause_unless_late(why)
        try:
            with SparkCluster(self._options) as cluster:
                self._leader = cluster.leader(self._wanted.partition, self._wanted.topic_id)
        except (PeerGone, RetriableError):
            self._leader = None

    def _wait_for_more(self, fetched: FetchedPartition) -> None:
        end = fetched.last_stable_offset if self._options.read_committed else fetched.high_watermark
        if self._late():
            self._lose(
                f"it ends at offset {end}, though offsets to {self._wanted.end} were there before"
            )
            self._position = self._wanted.end

    def _skip_what_is_gone(self) -> None:
        partition = self._wanted.partition
        with SparkCluster(self._options) as cluster:
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


def _refused(error: ErrorCode) -> FetchedPartition:
    """The response for the partition, where a broker refused the request as a whole."""
    code = ErrorCode.unknown_server_error if error is ErrorCode.none else error
    return FetchedPartition("", -1, code, -1, -1, -1, None, None, memoryview(b""))
