"""Fetch sessions (KIP-227): a client names only what changed, and is sent only what changed.

A session begins with a full fetch (epoch 0) and goes on with incremental ones, each with the next
epoch. Whatever does not fit (an unknown id, a wrong epoch) gets an error, and the client opens
another session with a full fetch: a session is a saving, never a promise.
"""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from barnabas.base.clock import MonotonicTime
from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.randomness import Random
from barnabas.purgatory.delayed_operation import DelayedOperation, Purgatory
from barnabas.server.fetching.fetch_partition import (
    FetchSession,
    NamedPartitions,
    Reader,
    Repeated,
    TopicKey,
    Wanted,
)
from barnabas.wire.fetch.fetch_codec import FetchPartition, FetchRequest, PartitionFetched

FULL: Final = 0
NO_SESSION: Final = -1
_LAST_EPOCH: Final = 2**31 - 1


@dataclass(slots=True)
class FetchContext:
    """One fetch: what to read, and how its answer is cut down to what changed."""

    session: FetchSession | None
    incremental: bool
    wanted: list[Wanted]  # to look at; of what is fetched repeatedly, what is due
    epoch: int = 0
    open: Callable[[list[Wanted]], FetchSession | None] | None = None
    repeated: Repeated | None = None  # the session, or what stands for it
    named: list[Wanted] | None = None  # to be answered for, if that is more

    @property
    def session_id(self) -> int:
        return 0 if self.session is None else self.session.session_id

    def refresh(self) -> None:
        """Take in what became due while the fetch waited."""
        if self.repeated is not None:
            self.wanted = list(self.repeated.due)

    def listen(self, purgatory: Purgatory[DelayedOperation]) -> None:
        """Let the fetch be woken by whatever happens to its partitions."""
        if self.repeated is not None:
            for wanted in self.wanted:
                wanted.listen(purgatory)

    def answering(self) -> ErrorCode:
        """Open the session of a full fetch, now that there is an answer; fail one overtaken.

        A client that went away while its fetch waited leaves no session that nobody knows of.
        An incremental fetch whose session ended meanwhile, or went on with another, has failed.
        """
        if self.open is not None:
            self.session = self.open(self.wanted)
        elif self.session is not None and self.session.is_closed:
            return ErrorCode.fetch_session_id_not_found
        elif self.session is not None and self.session.epoch != self.epoch:
            return ErrorCode.invalid_fetch_session_epoch
        return ErrorCode.none

    def worth_sending(self, wanted: Wanted, got: PartitionFetched) -> bool:
        """Whether the client must be sent this partition; remembers what it was sent."""
        changed = (
            len(got.records) > 0
            or got.code != 0
            or got.diverging_epoch is not None
            or not wanted.is_sent(got.high_watermark, got.log_start_offset)
        )
        wanted.on_sent(got)
        if len(got.records) > 0 and wanted.session is not None:
            wanted.session.on_records_sent(wanted)
        return changed or not self.incremental


class FetchSessions:
    """The sessions of this broker, at most `slots` of them."""

    def __init__(
        self, slots: int, stale_after_ms: int, random: Random, time: MonotonicTime
    ) -> None:
        self._slots = slots
        self._stale_after_ms = stale_after_ms
        self._random = random
        self._time = time
        self._sessions: dict[int, FetchSession] = {}  # least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

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
            opening = partial(self._open, by_id, reader_of(request))
            return FetchContext(None, False, wanted, open=opening)
        return self._resume(request, by_id)

    def _resume(self, request: FetchRequest, by_id: bool) -> FetchContext:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise BrokerError(ErrorCode.fetch_session_id_not_found)
        if session.epoch != request.session_epoch:
            raise BrokerError(ErrorCode.invalid_fetch_session_epoch)
        if session.by_id != by_id:
            raise BrokerError(ErrorCode.fetch_session_topic_id_error)
        for topic, partitions in _topics(request):
            session.name(topic, partitions)
        for forgotten in request.forgotten:
            key = _key(forgotten.name, forgotten.topic_id)
            for index in forgotten.partitions:
                session.forget(key, index)
        del self._sessions[session.session_id]
        if not len(session):
            return FetchContext(None, False, [])
        self._sessions[session.session_id] = session
        session.epoch = 1 if session.epoch == _LAST_EPOCH else session.epoch + 1
        session.on_fetch(reader_of(request), self._time.now_ms())
        return FetchContext(session, True, list(session.due), session.epoch, repeated=session)

    def _open(self, by_id: bool, reader: Reader, wanted: list[Wanted]) -> FetchSession | None:
        """A new session, or None where there is no room: the client then fetches in full."""
        if len(self._sessions) >= self._slots and not self._evict(len(wanted)):
            return None
        session_id = 0
        while session_id == 0 or session_id in self._sessions:
            session_id = self._random.below(2**31)
        session = FetchSession(session_id, by_id, reader, self._time.now_ms())
        for each in wanted:
            session.add(each)
        self._sessions[session_id] = session
        return session

    def _evict(self, size: int) -> bool:
        """Make room for a session of `size` partitions, at the expense of one that is worth less.

        That is the longest unused if it is stale, else the smallest of those that are not new.
        """
        too_old_ms = self._time.now_ms() - self._stale_after_ms
        least = next(iter(self._sessions.values()), None)
        if least is None or least.last_fetch.ms >= too_old_ms:
            settled = (s for s in self._sessions.values() if s.created_ms < too_old_ms)
            least = min(settled, key=len, default=None)
            if least is None or len(least) >= size:
                return False
        self._end(least.session_id)
        return True

    def _end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()


def reader_of(request: FetchRequest) -> Reader:
    return Reader(request.replica_id, request.read_committed)


def _named(request: FetchRequest) -> list[Wanted]:
    """What a request names; a partition that it names twice counts once, as named last."""
    named: list[Wanted] = []
    found: dict[TopicKey, dict[int, Wanted]] = {}
    for key, partitions in _topics(request):
        known = found.setdefault(key, {})
        for partition in partitions:
            wanted = known.get(partition.partition)
            if wanted is None:
                known[partition.partition] = wanted = Wanted(key, partition)
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
