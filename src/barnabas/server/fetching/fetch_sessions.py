"""Fetch sessions (KIP-227): a client names only what changed, and is sent only what changed.

A session begins with a full fetch (epoch 0) and goes on with incremental ones, each with the next
epoch. Whatever does not fit (an unknown id, a wrong epoch) gets an error, and the client opens
another session with a full fetch: a session is a saving, never a promise.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas.base.clock import MonotonicTime
from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.randomness import Random
from barnabas.purgatory.delayed_operation import DelayedOperation, Purgatory
from barnabas.server.delayed.partition_purgatories import Key
from barnabas.server.fetching.cached_partitions import (
    CacheCount,
    CachedPartition,
    CachedPartitions,
    FetchSession,
    NamedPartitions,
    Reader,
    TopicKey,
)
from barnabas.wire.fetch.fetch_codec import FetchPartition, FetchRequest, PartitionFetched

FULL: Final = 0
NO_SESSION: Final = -1
_LAST_EPOCH: Final = 2**31 - 1


# A session of a follower is worth more than any of a consumer; else the size decides.
Worth = tuple[bool, int]


class SessionOpening(NamedTuple):
    """A session that a full fetch asks for."""

    by_id: bool
    reader: Reader


@dataclass(slots=True)
class FetchContext:
    """One fetch: the partitions to read, and those that its response must hold."""

    session: FetchSession | None
    incremental: bool
    wanted: list[CachedPartition]  # to look at; of what is fetched repeatedly, what is due
    epoch: int = 0
    opening: SessionOpening | None = None  # the session to open when the fetch is complete
    repeated: CachedPartitions | None = None  # the session, or what stands for it
    named: list[CachedPartition] | None = None  # to be answered for, if that is more

    @property
    def session_id(self) -> int:
        return 0 if self.session is None else self.session.session_id

    @property
    def is_superseded(self) -> bool:
        """True if the session ended, or went on with another fetch: `complete` will refuse this."""
        session = self.session
        return session is not None and (session.is_closed or session.epoch != self.epoch)

    def keys(self) -> list[Key]:
        """The partitions to watch during the wait; those of repeated fetches listen themselves."""
        if self.repeated is not None:
            return []
        return [wanted.key for wanted in self.wanted if wanted.key is not None]

    def wait_ms(self, request: FetchRequest) -> int:
        """The longest that the fetch may wait, from now on."""
        if self.session is None or request.replica_id >= 0 or request.min_bytes > 1:
            return request.max_wait_ms
        return self.session.wait_ms(request.max_wait_ms)

    def refresh(self) -> None:
        """Add the partitions that became due while the fetch waited."""
        if self.repeated is not None:
            self.wanted = list(self.repeated.due)

    def listen(self, purgatory: Purgatory[DelayedOperation]) -> None:
        """Wake the fetch when anything happens to its partitions."""
        if self.repeated is not None:
            for wanted in self.wanted:
                wanted.listen(purgatory)

    def is_worth_sending(self, wanted: CachedPartition, got: PartitionFetched) -> bool:
        """True if the response must hold this partition: an incremental one holds the changed."""
        return (
            not self.incremental
            or len(got.records) > 0
            or got.code != 0
            or got.diverging_epoch is not None
            or not wanted.is_sent(got.high_watermark, got.log_start_offset)
        )

    def on_sent(self, wanted: CachedPartition, got: PartitionFetched) -> None:
        """Remember what the client knows of this partition now, whether or not it was sent."""
        wanted.on_sent(got)
        if len(got.records) > 0 and wanted.session is not None:
            wanted.session.on_records_sent(wanted)


class FetchSessions:
    """The sessions of this broker, at most `slots` of them, with a bound on all partitions."""

    def __init__(
        self, slots: int, stale_after_ms: int, random: Random, time: MonotonicTime
    ) -> None:
        self._slots = slots
        self._stale_after_ms = stale_after_ms
        self._random = random
        self._time = time
        self._sessions: dict[int, FetchSession] = {}  # least recently used first
        self.count = CacheCount()

    def __len__(self) -> int:
        return len(self._sessions)

    def stir_all(self) -> None:
        """Make all partitions due: what their readers may read has changed."""
        for session in self._sessions.values():
            session.reconsider()

    def begin(
        self, request: FetchRequest, *, by_id: bool, named: NamedPartitions | None = None
    ) -> FetchContext:
        """The context of one fetch; `named` is what its client names without a session.

        Raises  BrokerError(fetch_session_id_not_found, invalid_fetch_session_epoch,
                fetch_session_topic_id_error), upon which the client opens another session
        """
        if request.session_epoch in (FULL, NO_SESSION):
            self._end(request.session_id)
            if named is not None and request.session_epoch == NO_SESSION:
                all_named = named.name(_topics(request))
                due = list(named.due)
                return FetchContext(None, False, due, repeated=named, named=all_named)
            wanted = _named(request)
            if request.session_epoch == NO_SESSION or not wanted:
                return FetchContext(None, False, wanted)
            opening = SessionOpening(by_id, reader_of(request))
            return FetchContext(None, False, wanted, opening=opening)
        return self._resume(request, by_id)

    def _resume(self, request: FetchRequest, by_id: bool) -> FetchContext:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise BrokerError(ErrorCode.fetch_session_id_not_found)
        if session.epoch != request.session_epoch:
            raise BrokerError(ErrorCode.invalid_fetch_session_epoch)
        if session.by_id != by_id:
            raise BrokerError(ErrorCode.fetch_session_topic_id_error)
        before = len(session)
        for topic, partitions in _topics(request):
            session.name(topic, partitions)
        for forgotten in request.forgotten:
            key = _key(forgotten.name, forgotten.topic_id)
            session.forget(key, forgotten.partitions)
        self.count.cached += len(session) - before
        if not self.count.has_room(0):
            self._end(session.session_id)
            raise BrokerError(ErrorCode.fetch_session_id_not_found)
        del self._sessions[session.session_id]
        if not len(session):
            session.close()  # a fetch of before may be under way
            return FetchContext(None, False, [])
        self._sessions[session.session_id] = session
        session.epoch = 1 if session.epoch == _LAST_EPOCH else session.epoch + 1
        session.on_fetch(reader_of(request), self._time.now_ms())
        return FetchContext(session, True, list(session.due), session.epoch, repeated=session)

    def complete(self, context: FetchContext) -> ErrorCode:
        """Open the session of a full fetch, now that there is a response.

        A client that disconnected while its fetch waited leaves no session behind. An incremental
        fetch fails if its session ended meanwhile, or went on with another fetch.
        """
        session = context.session
        if context.opening is not None:
            context.session = self._open(*context.opening, context.wanted)
        elif session is not None and session.is_closed:
            return ErrorCode.fetch_session_id_not_found
        elif session is not None and session.epoch != context.epoch:
            return ErrorCode.invalid_fetch_session_epoch
        return ErrorCode.none

    def _open(
        self, by_id: bool, reader: Reader, wanted: list[CachedPartition]
    ) -> FetchSession | None:
        """A new session, or None if there is no room: the client then sends full fetches."""
        while not self.count.has_room(len(wanted)):
            if not self._end_stale():
                return None
        if len(self._sessions) >= self._slots and not self._evict(_worth(reader, len(wanted))):
            return None
        session_id = 0
        while session_id == 0 or session_id in self._sessions:
            session_id = self._random.below(2**31)
        session = FetchSession(session_id, by_id, reader, self._time.now_ms())
        for each in wanted:
            session.add(each)
        self.count.cached += len(session)
        self._sessions[session_id] = session
        return session

    def _evict(self, worth: Worth) -> bool:
        """Make room for a session, at the expense of one that is worth less.

        That is the longest unused if it is stale, else one of a consumer if the new one is a
        follower's, else the smallest of those that are not new.
        """
        if self._end_stale():
            return True
        too_old_ms = self._time.now_ms() - self._stale_after_ms
        is_follower, _ = worth
        evictable = (
            session
            for session in self._sessions.values()
            if session.created_ms < too_old_ms or (is_follower and not session.reader.is_follower)
        )
        least = min(evictable, key=_worth_of, default=None)
        if least is None or _worth_of(least) >= worth:
            return False
        self._end(least.session_id)
        return True

    def _end_stale(self) -> bool:
        """End the session that was unused for longest, if it is stale."""
        least = next(iter(self._sessions.values()), None)
        if least is None or least.last_fetch.ms >= self._time.now_ms() - self._stale_after_ms:
            return False
        self._end(least.session_id)
        return True

    def _end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.count.cached -= len(session)
            session.close()


def _worth_of(session: FetchSession) -> Worth:
    return _worth(session.reader, len(session))


def _worth(reader: Reader, size: int) -> Worth:
    return reader.is_follower, size


def reader_of(request: FetchRequest) -> Reader:
    return Reader(request.replica_id, request.read_committed)


def _named(request: FetchRequest) -> list[CachedPartition]:
    """The partitions of a request; one that it names twice counts once, as named last."""
    named: list[CachedPartition] = []
    found: dict[TopicKey, dict[int, CachedPartition]] = {}
    for key, partitions in _topics(request):
        known = found.setdefault(key, {})
        for partition in partitions:
            wanted = known.get(partition.partition)
            if wanted is None:
                known[partition.partition] = wanted = CachedPartition(key, partition)
                named.append(wanted)
            else:
                wanted.partition = partition
    return named


def _topics(request: FetchRequest) -> Iterator[tuple[TopicKey, list[FetchPartition]]]:
    for topic in request.topics:
        yield _key(topic.name, topic.topic_id), topic.partitions


def _key(name: str | None, topic_id: uuid.UUID | None) -> TopicKey:
    if topic_id is not None:
        return topic_id
    return name if name is not None else uuid.UUID(int=0)
