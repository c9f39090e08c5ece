"""Fetch sessions (KIP-227): a consumer names only what changed, and is told only what changed.

A session begins with a full fetch (epoch 0) and is carried on by incremental ones, each
with the next epoch. Whatever does not fit (an unknown id, a wrong epoch) gets an error, and
the client begins anew with a full fetch: a session is a saving, never a promise.
"""

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.randomness import Random
from barnabas.wire.fetch import FetchPartition, FetchRequest, PartitionFetched

FULL: Final = 0
NO_SESSION: Final = -1
_LAST_EPOCH: Final = 2**31 - 1

TopicKey = str | uuid.UUID


class Wanted(NamedTuple):
    """One partition to fetch from, its topic as the client named it."""

    topic: TopicKey
    partition: FetchPartition


@dataclass(slots=True)
class _Kept:
    """What a session remembers of a partition: what is wanted, and what was last told."""

    wanted: FetchPartition
    high_watermark: int = -1
    log_start_offset: int = -1


@dataclass(slots=True)
class _Session:
    session_id: int
    by_id: bool
    epoch: int  # of the next request
    created_ms: float
    last_used_ms: float
    partitions: dict[tuple[TopicKey, int], _Kept] = field(default_factory=dict)


@dataclass(slots=True)
class FetchContext:
    """One fetch: what to read, and how its answer is cut down to what changed."""

    session: _Session | None
    incremental: bool
    wanted: list[Wanted]
    epoch: int = 0
    open: Callable[[list[Wanted]], _Session | None] | None = None

    @property
    def session_id(self) -> int:
        return 0 if self.session is None else self.session.session_id

    def answering(self) -> ErrorCode:
        """Before anything is told: a full fetch gets its session only now, when there is an answer.

        A client that went away while its fetch waited leaves none behind that nobody knows of.
        An incremental fetch that another one of the same session overtook has failed.
        """
        if self.open is not None:
            self.session = self.open(self.wanted)
        elif self.session is not None and self.session.epoch != self.epoch:
            return ErrorCode.invalid_fetch_session_epoch
        return ErrorCode.none

    def has_told(
        self, topic: TopicKey, partition: int, high_watermark: int, log_start_offset: int
    ) -> bool:
        """Whether a partition without records and errors need not be told of again."""
        if self.session is None or not self.incremental:
            return False
        kept = self.session.partitions.get((topic, partition))
        return (
            kept is not None
            and kept.high_watermark == high_watermark
            and kept.log_start_offset == log_start_offset
        )

    def worth_telling(self, topic: TopicKey, got: PartitionFetched) -> bool:
        """Whether the client must be told of this partition; remembers what it was told.

        A partition that had records goes to the end of the session's order, so that a
        small `max_bytes` does not starve the ones behind it.
        """
        if self.session is None:
            return True
        key = (topic, got.partition)
        kept = self.session.partitions.get(key)
        if kept is None:
            return True
        changed = (
            len(got.records) > 0
            or got.code != 0
            or got.diverging_epoch is not None
            or got.high_watermark != kept.high_watermark
            or got.log_start_offset != kept.log_start_offset
        )
        # After an error everything is told again.
        kept.high_watermark = -1 if got.code else got.high_watermark
        kept.log_start_offset = -1 if got.code else got.log_start_offset
        if self.incremental and len(got.records) > 0:
            self.session.partitions[key] = self.session.partitions.pop(key)
        return changed or not self.incremental


class FetchSessions:
    """The sessions of this broker, at most `slots` of them."""

    def __init__(
        self, slots: int, stale_after_ms: int, random: Random, now_ms: Callable[[], float]
    ) -> None:
        self._slots = slots
        self._stale_after_ms = stale_after_ms
        self._random = random
        self._now_ms = now_ms
        self._sessions: dict[int, _Session] = {}  # least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, request: FetchRequest, *, by_id: bool) -> FetchContext:
        """The context of one fetch.

        Raises  BrokerError(fetch_session_id_not_found, invalid_fetch_session_epoch,
                fetch_session_topic_id_error): the client shall begin a new session
        """
        if request.session_epoch in (FULL, NO_SESSION):
            self._sessions.pop(request.session_id, None)
            wanted = list({(w.topic, w.partition.partition): w for w in _named(request)}.values())
            if request.session_epoch == NO_SESSION or not wanted:
                return FetchContext(None, False, wanted)
            return FetchContext(None, False, wanted, open=partial(self._open, by_id))
        return self._resume(request, by_id)

    def _resume(self, request: FetchRequest, by_id: bool) -> FetchContext:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise BrokerError(ErrorCode.fetch_session_id_not_found)
        if session.epoch != request.session_epoch:
            raise BrokerError(ErrorCode.invalid_fetch_session_epoch)
        if session.by_id != by_id:
            raise BrokerError(ErrorCode.fetch_session_topic_id_error)
        for topic, partition in _named(request):
            key = (topic, partition.partition)
            kept = session.partitions.get(key)
            if kept is None:
                session.partitions[key] = _Kept(partition)
            else:
                kept.wanted = partition
        for forgotten in request.forgotten:
            for index in forgotten.partitions:
                session.partitions.pop((_key(forgotten.name, forgotten.topic_id), index), None)
        del self._sessions[session.session_id]
        if not session.partitions:
            return FetchContext(None, False, [])
        self._sessions[session.session_id] = session
        session.epoch = 1 if session.epoch == _LAST_EPOCH else session.epoch + 1
        session.last_used_ms = self._now_ms()
        wanted = [Wanted(topic, kept.wanted) for (topic, _), kept in session.partitions.items()]
        return FetchContext(session, True, wanted, session.epoch)

    def _open(self, by_id: bool, wanted: list[Wanted]) -> _Session | None:
        """A new session, or None where there is no room: the client then fetches in full."""
        if len(self._sessions) >= self._slots and not self._evict(len(wanted)):
            return None
        session_id = 0
        while session_id == 0 or session_id in self._sessions:
            session_id = self._random.below(2**31)
        now_ms = self._now_ms()
        session = _Session(session_id, by_id, 1, now_ms, now_ms)
        for topic, partition in wanted:
            session.partitions[topic, partition.partition] = _Kept(partition)
        self._sessions[session_id] = session
        return session

    def _evict(self, size: int) -> bool:
        """Make room for a session of `size` partitions, at the expense of one that is worth less.

        That is the longest unused if it is stale, else the smallest of those that are not new.
        """
        too_old_ms = self._now_ms() - self._stale_after_ms
        least = next(iter(self._sessions.values()), None)
        if least is None or least.last_used_ms >= too_old_ms:
            settled = (s for s in self._sessions.values() if s.created_ms < too_old_ms)
            least = min(settled, key=lambda s: len(s.partitions), default=None)
            if least is None or len(least.partitions) >= size:
                return False
        del self._sessions[least.session_id]
        return True


def _named(request: FetchRequest) -> Iterable[Wanted]:
    for topic in request.topics:
        key = _key(topic.name, topic.topic_id)
        for partition in topic.partitions:
            yield Wanted(key, partition)


def _key(name: str | None, topic_id: uuid.UUID | None) -> TopicKey:
    if topic_id is not None:
        return topic_id
    return name if name is not None else uuid.UUID(int=0)
