from collections.abc import Callable
from uuid import UUID

from barnabas.replication.leader.leader_replica import LeaderReplica
from barnabas.wire.fetch.fetch_codec import Buffer
from barnabas.wire.fetch.single_fetch import SingleAnswer, SingleFetch

class RepeatedFetch:
    def __init__(
        self,
        single: SingleFetch,
        ready: SingleAnswer,
        frame: memoryview,
        find: Callable[[str, int], LeaderReplica | None],
        name_of: Callable[[UUID], str | None],
        max_bytes: int,
    ) -> None: ...
    def __call__(self, frame: memoryview, correlation_id: int) -> list[Buffer] | None: ...
    def answer(self, offset: int, correlation_id: int) -> list[Buffer] | None: ...
