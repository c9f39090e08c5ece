"""The follower's side of a fetch session (KIP-227): requests name only changed partitions."""

import uuid
from collections.abc import Iterable
from typing import Final

from barnabas.base.errors import ErrorCode
from barnabas.wire.fetch.fetch_codec import FetchPartition, FetchTopic, ForgottenTopic

FULL: Final = 0
_LAST_EPOCH: Final = 2**31 - 1

# A topic by its id, or by its name if it has none; never both in one session.
Topic = uuid.UUID | str
Key = tuple[Topic, int]


class FollowerSession:
    """A fetch session with one leader. After any error it starts again with a full request."""

    def __init__(self) -> None:
        self.session_id = 0
        self.epoch = FULL
        # The leader had no room for a session: each request has to name all partitions.
        self.is_refused = False

    @property
    def is_full(self) -> bool:
        """True if the next request begins a session, so it has to name all partitions."""
        return self.epoch == FULL

    def on_answer(self, error: ErrorCode, session_id: int) -> bool:
        """Return whether the response is valid; the session continues if the leader keeps one."""
        if error is not ErrorCode.none:
            self.on_lost()
            if error is ErrorCode.fetch_session_id_not_found:
                self.session_id = 0
            return False
        self.is_refused = session_id == 0
        if self.is_refused:
            self.session_id, self.epoch = 0, FULL
        elif session_id == self.session_id and self.epoch != FULL:
            self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1
        else:
            self.session_id, self.epoch = session_id, 1
        return True

    def on_lost(self) -> None:
        """Note a missing or failed response: the next request ends this session and begins
        another."""
        self.epoch = FULL


def topics_of(named: Iterable[tuple[Topic, FetchPartition]]) -> list[FetchTopic]:
    topics: dict[Topic, FetchTopic] = {}
    for of, partition in named:
        topic = topics.get(of)
        if topic is None:
            topic = topics[of] = FetchTopic(*_name_and_id(of), [])
        topic.partitions.append(partition)
    return list(topics.values())


def forgotten_of(keys: Iterable[Key]) -> list[ForgottenTopic]:
    partitions: dict[Topic, list[int]] = {}
    for topic, partition in keys:
        partitions.setdefault(topic, []).append(partition)
    return [ForgottenTopic(*_name_and_id(of), tuple(each)) for of, each in partitions.items()]


def _name_and_id(topic: Topic) -> tuple[str | None, uuid.UUID | None]:
    return (topic, None) if isinstance(topic, str) else (None, topic)
