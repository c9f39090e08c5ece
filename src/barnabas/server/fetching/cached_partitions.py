"""The partitions of a fetch, cached for a client that fetches them again and again.

Some of them are *due*: the next fetch has to check them. All others *rest*: the client has all of
their records, was sent their offsets, and a listener in the purgatory makes a partition due again
when anything happens to it. So a fetch costs what changed, not what the client subscribes to.
"""

import uuid
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from barnabas.purgatory.delayed_operation import DelayedOperation, Purgatory
from barnabas.replication.leader.follower_progress import Follower, LastFetch
from barnabas.server.delayed.partition_purgatories import Key
from barnabas.wire.fetch.fetch_codec import FetchPartition, PartitionFetched, PartitionMemo

TopicKey = str | uuid.UUID

# A client that left partitions out still holds records of them. A fetch of the others is kept
# waiting this long at first, and twice as long each time nothing came.
FIRST_PATIENCE_MS: Final = 4
MOST_LEFT_OUT: Final = 10_000
# Of all clients together. A partition takes some 500 bytes.
MOST_CACHED: Final = 1_000_000


class CacheCount:
    """How many partitions are cached for all clients together."""

    __slots__ = ("cached",)

    def __init__(self) -> None:
        self.cached = 0

    def has_room(self, more: int) -> bool:
        return self.cached + more <= MOST_CACHED


class Reader(NamedTuple):
    """The kind of reader a fetch comes from; what it may read depends on it."""

    replica_id: int
    read_committed: bool

    @property
    def is_follower(self) -> bool:
        return self.replica_id >= 0


class CachedPartition:
    """A partition to fetch from; in a session, also the offsets that the client was sent last."""

    __slots__ = (
        "_follower",
        "high_watermark",
        "key",
        "listens_in",
        "log_start_offset",
        "packed",
        "partition",
        "session",
        "topic",
    )

    def __init__(
        self, topic: TopicKey, partition: FetchPartition, session: "CachedPartitions | None" = None
    ) -> None:
        """`topic` as the client named it."""
        self.topic = topic
        self.partition = partition
        self.session = session
        self.key: Key | None = None  # name and index, once the topic's name is known
        self.high_watermark = -1
        self.log_start_offset = -1
        self.packed = b""  # the answer while it rests, for a client without a session
        self.listens_in: Purgatory[DelayedOperation] | None = None
        self._follower: Follower | None = None

    def on_event(self) -> bool:
        """Make the partition due, since it changed; a fetch that waits checks it soon."""
        session = self.session
        self.stir()
        if session is not None:
            session.due[self] = None
            if session.waiting is not None:
                session.waiting.on_event()
        return False

    def listen(self, purgatory: Purgatory[DelayedOperation]) -> None:
        """Become due with the next change of the partition."""
        if self.listens_in is None and self.key is not None and not self._is_over:
            purgatory.listen(self, self.key)

    def rest(self, purgatory: Purgatory[DelayedOperation], follower: Follower | None) -> None:
        """Remove the partition from the session's due ones until it changes.

        While it rests, each fetch of the session counts as one of its `follower`.
        """
        session = self.session
        if session is None or self.key is None or self._is_over:
            return
        self.listen(purgatory)
        session.due.pop(self, None)
        self._follower = follower
        if follower is not None:
            follower.rest(session.last_fetch)

    @property
    def _is_over(self) -> bool:
        return self.session is not None and self.session.is_closed

    def stir(self) -> None:
        """End resting and listening; does not make the partition due."""
        if self.listens_in is not None and self.key is not None:
            self.listens_in.stop_listening(self, self.key)
        if self._follower is not None and self.session is not None:
            self._follower.stir(self.session.last_fetch)
            self._follower = None

    def is_sent(self, high_watermark: int, log_start_offset: int) -> bool:
        """True if the client was sent these offsets, and no error since."""
        return self.high_watermark == high_watermark and self.log_start_offset == log_start_offset

    def on_sent(self, got: PartitionFetched) -> None:
        """Remember what the client is sent; after an error everything is sent again."""
        self.high_watermark = -1 if got.code else got.high_watermark
        self.log_start_offset = -1 if got.code else got.log_start_offset


class CachedPartitions:
    """The partitions that one client fetches again and again."""

    __slots__ = ("due", "is_closed", "last_fetch", "reader", "topics", "waiting")

    def __init__(self, reader: Reader, now_ms: float) -> None:
        self.reader = reader
        self.last_fetch = LastFetch(now_ms)
        # By index within each topic: an id is slow to hash, and there are many partitions.
        self.topics: dict[TopicKey, dict[int, CachedPartition]] = {}
        self.due: dict[CachedPartition, None] = {}  # in the order of their turns
        self.waiting: DelayedOperation | None = None
        self.is_closed = False

    def __iter__(self) -> Iterator[CachedPartition]:
        for partitions in self.topics.values():
            yield from partitions.values()

    def on_records_sent(self, wanted: CachedPartition) -> None:
        """Put the partition last, so that a small `max_bytes` does not starve those behind it."""
        if wanted in self.due:
            del self.due[wanted]
            self.due[wanted] = None

    def close(self) -> None:
        """Listen to nothing any more, also if a fetch still waits."""
        self.is_closed = True
        self.stir()

    def stir(self) -> None:
        """Make all partitions due."""
        for wanted in self:
            wanted.stir()
        self.due = dict.fromkeys(self)

    def reconsider(self) -> None:
        """Make all partitions due, and wake the fetch that waits: the reader's rights changed."""
        self.stir()
        if self.waiting is not None:
            self.waiting.on_event()


class NamedPartitions(CachedPartitions):
    """The partitions that a client without a session names in each of its requests.

    It is answered with all of them each time; those that rest have their answers ready. It lives
    as long as the client's connection.
    """

    __slots__ = ("_all", "_count", "memo", "version")

    def __init__(self, reader: Reader, version: int, all_clients: CacheCount) -> None:
        super().__init__(reader, 0.0)
        self.version = version
        self.memo = PartitionMemo()
        self._all = all_clients
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def close(self) -> None:
        self._all.cached -= self._count
        self._count = 0
        super().close()

    def name(
        self, topics: Iterable[tuple[TopicKey, list[FetchPartition]]]
    ) -> list[CachedPartition]:
        """All that a request names, in its order; what it names no more is forgotten."""
        before, self.topics = self.topics, {}
        due, named = self.due, []
        for topic, partitions in topics:
            known = before.get(topic, {})
            now = self.topics.setdefault(topic, {})
            for partition in partitions:
                index = partition.partition
                wanted = known.pop(index, None)
                if wanted is None:
                    if index in now:  # named twice: the last counts
                        now[index].partition = partition
                        due[now[index]] = None
                        continue
                    wanted = CachedPartition(topic, partition, self)
                    due[wanted] = None
                elif wanted.partition is not partition:
                    wanted.stir()
                    wanted.partition = partition
                    due[wanted] = None
                now[index] = wanted
                named.append(wanted)
        for forgotten in before.values():
            for wanted in forgotten.values():
                wanted.stir()
                due.pop(wanted, None)
        self._all.cached += len(named) - self._count
        self._count = len(named)
        return named


class FetchSession(CachedPartitions):
    """The partitions of a fetch session, of which the client names only what changed."""

    __slots__ = (
        "_count",
        "_left_out",
        "_left_out_count",
        "_patience_ms",
        "by_id",
        "created_ms",
        "epoch",
        "session_id",
    )

    def __init__(self, session_id: int, by_id: bool, reader: Reader, now_ms: float) -> None:
        super().__init__(reader, now_ms)
        self.session_id = session_id
        self.by_id = by_id
        self.epoch = 1  # of the next request
        self.created_ms = now_ms
        self._count = 0
        # Partitions that the client forgot, and may come back for.
        # By topic, since the hash of an id is slow.
        self._left_out: dict[TopicKey, set[int]] = {}
        self._left_out_count = 0
        self._patience_ms = 0

    def __len__(self) -> int:
        return self._count

    def add(self, wanted: CachedPartition) -> None:
        wanted.session = self
        self._count += 1
        self.topics.setdefault(wanted.topic, {})[wanted.partition.partition] = wanted
        self.due[wanted] = None

    def name(self, topic: TopicKey, partitions: list[FetchPartition]) -> None:
        """Apply what a request says of a topic's partitions, and make them due."""
        if not partitions:
            return
        known = self.topics.setdefault(topic, {})
        left_out = self._left_out.get(topic, set()) if self._left_out else set()
        for partition in partitions:
            wanted = known.get(partition.partition)
            if wanted is None:
                wanted = known[partition.partition] = CachedPartition(topic, partition, self)
                self._count += 1
                if partition.partition in left_out:
                    left_out.discard(partition.partition)
                    self._left_out_count -= 1
            else:
                wanted.stir()
                wanted.partition = partition
            self.due[wanted] = None
        if self._left_out and not left_out:
            self._left_out.pop(topic, None)

    def forget(self, topic: TopicKey, indexes: Iterable[int]) -> None:
        """Leave out partitions, of which the client may hold records that it has yet to use."""
        known = self.topics.get(topic)
        if known is None:
            return
        left_out = self._left_out.setdefault(topic, set())
        for index in indexes:
            wanted = known.pop(index, None)
            if wanted is None:
                continue
            wanted.stir()
            self.due.pop(wanted, None)
            self._count -= 1
            if self._left_out_count < MOST_LEFT_OUT and index not in left_out:
                left_out.add(index)
                self._left_out_count += 1
        if not left_out:
            del self._left_out[topic]
        if not known:
            del self.topics[topic]

    def on_fetch(self, reader: Reader, now_ms: float) -> None:
        """Begin one more fetch; another kind of reader has to be sent everything it may read."""
        if reader != self.reader:
            self.reader = reader
            self.stir()
        self.last_fetch.ms = now_ms

    def on_records_sent(self, wanted: CachedPartition) -> None:
        self._patience_ms = 0
        super().on_records_sent(wanted)

    def wait_ms(self, max_wait_ms: int) -> int:
        """How long a fetch may be kept waiting.

        The Java consumer has one fetch under way to a broker, and leaves out the partitions of
        which it still holds records. When it has used those up, a fetch of the others that waits
        would keep it from asking for more. If it does not come back for them, it paused them.
        """
        if not self._left_out:
            return max_wait_ms
        self._patience_ms = max(FIRST_PATIENCE_MS, 2 * self._patience_ms)
        if self._patience_ms >= max_wait_ms:
            self._left_out.clear()
            self._left_out_count = 0
        return min(self._patience_ms, max_wait_ms)
