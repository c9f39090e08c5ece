"""The replica selector (KIP-392): the preferred read replica of a consumer in a rack."""

from typing import Final

from barnabas.base.errors import ConfigError
from barnabas.base.ids import BrokerId
from barnabas.replication.leader.follower_progress import Follower
from barnabas.replication.leader.leader_replica import LeaderReplica
from barnabas.server.cluster.metadata_cache import MetadataCache

_PACKAGE: Final = "org.apache.kafka.common.replica."
LEADER: Final = _PACKAGE + "LeaderSelector"
RACK_AWARE: Final = _PACKAGE + "RackAwareReplicaSelector"


def read_replica_selector(name: str | None, metadata: MetadataCache) -> "RackAware | None":
    """None: every consumer reads from the leader. Raises ConfigError for any other class."""
    if name is None or name == LEADER:
        return None
    if name == RACK_AWARE:
        return RackAware(metadata)
    raise ConfigError(f"replica.selector.class={name} is not known: use {RACK_AWARE} or {LEADER}")


class RackAware:
    """Sends a consumer to a replica in its own rack, if the leader is in another."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata

    def select(self, leader: LeaderReplica, rack: str, offset: int) -> BrokerId | None:
        """The in-sync follower that has `offset` and is furthest, of those in the rack."""
        if not rack or self._rack(leader.broker_id) == rack:
            return None
        near = [
            follower
            for follower in leader.followers
            if follower.log_start_offset <= offset <= follower.log_end_offset
            and follower.broker_id in leader.isr
            and self._rack(follower.broker_id) == rack
        ]
        return max(near, key=_by_progress).broker_id if near else None

    def _rack(self, broker_id: BrokerId) -> str | None:
        broker = self._metadata.brokers.get(broker_id)
        return None if broker is None else broker.rack


def _by_progress(follower: Follower) -> tuple[int, float, int]:
    return follower.log_end_offset, follower.last_caught_up_ms, -follower.broker_id
