"""The settings of a seed: broker configs and the duration of a run."""

import hashlib
import random
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from barnabas.base.randomness import Random
from barnabas.config.broker_config import BrokerConfig

PORT: Final = 9092

# Short timeouts, so that much happens in a minute; small segments, so that there are many.
_PROPERTIES: Final = {
    "auto.create.topics.enable": "false",
    "connections.max.idle.ms": "20000",
    "controlled.shutdown.retry.backoff.ms": "500",
    "controller.socket.timeout.ms": "3000",
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
    "offsets.topic.segment.bytes": "16384",
    "replica.fetch.backoff.ms": "100",
    "replica.fetch.wait.max.ms": "200",
    "replica.high.watermark.checkpoint.interval.ms": "1500",
    "replica.lag.time.max.ms": "3000",
    "replica.socket.timeout.ms": "2500",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "transaction.max.timeout.ms": "20000",
    "transaction.state.log.num.partitions": "2",
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
    # Of topics when they are created, and of Kafka's own. With 1 nothing waits for other replicas:
    # an append is a commit.
    replication_factor: int = 3
    internal_replication_factor: int = 3

    @property
    def is_sole(self) -> bool:
        """True if coordinators wait for nobody: their partitions have a sole replica."""
        return self.internal_replication_factor == 1

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
            "default.replication.factor": str(self.replication_factor),
            "offsets.topic.replication.factor": str(self.internal_replication_factor),
            "transaction.state.log.min.isr": str(min(2, self.internal_replication_factor)),
            "transaction.state.log.replication.factor": str(self.internal_replication_factor),
            "zookeeper.session.timeout.ms": str(int(self.session_timeout_s * 1000)),
            **({"log.flush.interval.messages": "1"} if self.flushes_each else {}),
            **(_AUTHORIZER if self.has_acls else {}),
        }
        return BrokerConfig.from_properties(properties)


class InEverySeed(NamedTuple):
    """Choices that hold in every seed of a search; without one, each seed draws its own."""

    transactions: bool = False
    sole_replicas: bool = False


DRAWN: Final = InEverySeed()


def searched_settings(
    seed: int, duration_s: float | None = None, every: InEverySeed = DRAWN
) -> SeedSettings:
    """The settings of a seed in a search: some have ACLs that change, or sole replicas."""
    settings = settings_of(seed, duration_s, transactions=every.transactions)
    if every.sole_replicas or has_sole_replicas(seed):
        return with_sole_replicas(settings)
    return replace(settings, has_acls=has_acls(seed))


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


def has_sole_replicas(seed: int) -> bool:
    """True if Kafka's topics have one replica in this seed; drawn apart, as `has_acls` is."""
    return not has_acls(seed) and stream(seed, "has sole replicas").random() < 0.15


def with_sole_replicas(settings: SeedSettings) -> SeedSettings:
    """The same cluster, or one broker of it, with one replica of each partition.

    In some clusters of three brokers the topics of clients have two: a coordinator decides at once,
    but its markers wait. A flipped bit and, without a flush of each record, a power failure would
    lose what nobody else has: the first is left out, the second happens only where each record is
    flushed. Most clients use `transaction.version` 0, as librdkafka does: the requests of 2 have no
    fast path of their own.
    """
    chosen = stream(settings.seed, "sole replicas")
    brokers = chosen.choice([1, 3, 3])
    flushes_each = chosen.random() < 0.5
    version = chosen.choice([0, 0, 2])
    factor = chosen.choice([1, 1, 2])
    return replace(
        settings,
        replication_factor=min(brokers, factor),
        internal_replication_factor=1,
        min_insync_replicas=1,
        brokers=brokers,
        flushes_each=flushes_each,
        bits_rot=False,
        has_transactions=True,
        transaction_version=version,
    )


def stream(seed: int, name: str) -> random.Random:
    """A random stream per use: drawing more from one does not change the others."""
    return random.Random(_number(seed, name))


def broker_stream(seed: int, name: str) -> Random:
    """As `stream`, for brokers and clients."""
    return Random(_number(seed, name))


def _number(seed: int, name: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"{seed} {name}".encode(), digest_size=8).digest())
