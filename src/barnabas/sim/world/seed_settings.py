"""The settings of a seed: broker configs and the duration of a run."""

import hashlib
import random
from dataclasses import dataclass
from typing import Final

from barnabas.base.randomness import Random
from barnabas.config.broker_config import BrokerConfig

PORT: Final = 9092

# Short timeouts, so that much happens in a minute; small segments, so that there are many.
_PROPERTIES: Final = {
    "auto.create.topics.enable": "false",
    "connections.max.idle.ms": "20000",
    "controlled.shutdown.retry.backoff.ms": "500",
    "controller.socket.timeout.ms": "3000",
    "default.replication.factor": "3",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.initial.rebalance.delay.ms": "200",
    "group.min.session.timeout.ms": "1000",
    "leader.imbalance.check.interval.seconds": "15",
    "log.cleaner.backoff.ms": "3000",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "log.cleaner.io.buffer.size": "65536",
    "log.flush.offset.checkpoint.interval.ms": "1500",
    "log.index.interval.bytes": "400",
    "log.index.size.max.bytes": "4096",
    "log.retention.check.interval.ms": "2500",
    "log.segment.delete.delay.ms": "1000",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.segment.bytes": "16384",
    "replica.fetch.backoff.ms": "100",
    "replica.fetch.wait.max.ms": "200",
    "replica.high.watermark.checkpoint.interval.ms": "1500",
    "replica.lag.time.max.ms": "3000",
    "replica.socket.timeout.ms": "2500",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "transaction.max.timeout.ms": "20000",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.segment.bytes": "16384",
}

_AUTHORIZER: Final = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@dataclass(frozen=True, slots=True)
class SeedSettings:
    """The settings of one cluster. With `flushes_each`, every record is flushed before it is
    committed, so the cluster survives any power failure; without, only those that leave another
    in-sync replica alive."""

    seed: int
    duration_s: float
    session_timeout_s: float
    min_insync_replicas: int
    segment_bytes: int
    log_dirs: int
    flushes_each: bool
    bits_rot: bool
    has_transactions: bool = False
    # 0: as in Kafka 3.9. 2: an epoch for each transaction, against requests that come late.
    transaction_version: int = 2
    # True if the process that takes over from a copier has a transactional id of its own (KIP-447).
    hands_over: bool = False
    is_light: bool = False  # only clients with transactions
    brokers: int = 3
    has_acls: bool = False

    @property
    def bootstrap(self) -> list[tuple[str, int]]:
        return [(f"broker-{broker}", PORT) for broker in range(self.brokers)]

    def config(self, broker: int) -> BrokerConfig:
        properties = {
            **_PROPERTIES,
            "broker.id": str(broker),
            "listeners": f"PLAINTEXT://broker-{broker}:{PORT}",
            "log.dirs": ",".join(f"/data-{folder}" for folder in range(self.log_dirs)),
            "log.segment.bytes": str(self.segment_bytes),
            "min.insync.replicas": str(self.min_insync_replicas),
            "zookeeper.session.timeout.ms": str(int(self.session_timeout_s * 1000)),
            **({"log.flush.interval.messages": "1"} if self.flushes_each else {}),
            **(_AUTHORIZER if self.has_acls else {}),
        }
        return BrokerConfig.from_properties(properties)


def settings_of(
    seed: int, duration_s: float | None = None, *, transactions: bool = False
) -> SeedSettings:
    """The settings of a seed; `duration_s` overrides the duration, `transactions` that half of the
    seeds have none."""
    chosen = stream(seed, "setting")
    return SeedSettings(
        seed=seed,
        duration_s=chosen.uniform(10, 35) if duration_s is None else duration_s,
        session_timeout_s=chosen.choice([2.0, 3.0, 6.0]),
        min_insync_replicas=chosen.choice([1, 2, 2, 2]),
        segment_bytes=chosen.choice([4_096, 16_384, 65_536]),
        log_dirs=chosen.choice([1, 1, 2]),
        flushes_each=chosen.random() < 0.25,
        bits_rot=chosen.random() < 0.1,
        has_transactions=chosen.random() < 0.5 or transactions,
        hands_over=chosen.random() < 0.3,
    )


def has_acls(seed: int) -> bool:
    """True if ACLs change in this seed; drawn apart, so that all else stays as it was."""
    return stream(seed, "has acls").random() < 0.1


def stream(seed: int, name: str) -> random.Random:
    """A random stream per use: drawing more from one does not change the others."""
    return random.Random(_number(seed, name))


def broker_stream(seed: int, name: str) -> Random:
    """As `stream`, for brokers and clients."""
    return Random(_number(seed, name))


def _number(seed: int, name: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"{seed} {name}".encode(), digest_size=8).digest())
