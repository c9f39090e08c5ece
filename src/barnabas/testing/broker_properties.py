"""The properties of brokers under test: Kafka's defaults, with shorter delays."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from barnabas.base.errors import ConfigError
from barnabas.config.broker_config import BrokerConfig
from barnabas.testing.cluster_security import ClusterSecurity
from barnabas.testing.cuttable_network import HOST
from barnabas.testing.misuse import Misuse

# Properties that the cluster sets itself, and what to do instead.
_NOT_FOR_TESTS: Final = {
    "broker.id": "brokers are numbered from 0",
    "node.id": "brokers are numbered from 0",
    "listeners": "brokers listen on free ports",
    "advertised.listeners": "brokers listen on free ports",
    "log.dirs": "give the cluster a folder",
    "log.dir": "give the cluster a folder",
    "zookeeper.connect": "the cluster has a coordination tree of its own",
    "zookeeper.session.timeout.ms": "give the cluster session_timeout_ms",
}


def broker_config(
    broker: int,
    brokers: int,
    port: int,
    folder: Path,
    session_timeout_ms: int,
    overrides: Mapping[str, str],
    security: ClusterSecurity,
) -> BrokerConfig:
    """The config of one broker in a cluster of `brokers`.

    Raises  Misuse for an unknown property or an invalid value
    """
    for name in overrides:
        if name in _NOT_FOR_TESTS:
            raise Misuse(f"config: {name} cannot be set here: {_NOT_FOR_TESTS[name]}")
    copies = str(min(3, brokers))
    properties = {
        "broker.id": str(broker),
        "listeners": f"{security.protocol}://{HOST}:{port}",
        "log.dirs": str(folder),
        "zookeeper.session.timeout.ms": str(session_timeout_ms),
        "default.replication.factor": copies,
        "offsets.topic.replication.factor": copies,
        "offsets.topic.num.partitions": "5",
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.num.partitions": "5",
        "transaction.state.log.min.isr": str(min(2, brokers)),
        "group.initial.rebalance.delay.ms": "0",
        "replica.lag.time.max.ms": "2000",
        "log.cleaner.dedupe.buffer.size": str(4 * 1024 * 1024),
        **security.of_brokers,
        **{name: str(value) for name, value in overrides.items()},
    }
    try:
        config = BrokerConfig.from_properties(properties)
    except ConfigError as error:
        raise Misuse(f"config: {error}") from None
    if config.unknown:
        raise Misuse(f"config: {config.warnings[0]}")
    return config
