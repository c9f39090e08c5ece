from collections.abc import Callable

from barnabas.base.clock import Clock
from barnabas.base.errors import DiskFault
from barnabas.replication.leader.leader_replica import LeaderReplica, Produced
from barnabas.replication.replicas import Replicas
from barnabas.server.requests.replies import Pending
from barnabas.wire.produce.plain_batch import Answer

class RepeatedProduce:
    def __init__(
        self,
        version: int,
        key: tuple[str, int],
        success: Answer,
        sized_at: int,
        replicas: Replicas,
        clock: Clock,
        appended: Callable[[tuple[str, int]], object],
        refuse: Callable[[int, int, tuple[str, int], DiskFault], bytes],
        replicated: Callable[[int, int, LeaderReplica, Produced, int, int], bytes | Pending | None],
        acks: int,
        timeout_ms: int,
    ) -> None: ...
    def __call__(self, frame: memoryview, correlation_id: int) -> bytes | Pending | None: ...
