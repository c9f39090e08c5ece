"""`__transaction_state`, the internal topic of transactions: how it is created."""

from typing import Final

from barnabas.config.broker_config import BrokerConfig
from barnabas.server.cluster.topic_creation import NewTopic
from barnabas.server.coordinators.internal_topics import replicas_of

TRANSACTION_TOPIC: Final = "__transaction_state"
REPLICATION_FACTOR: Final = "transaction.state.log.replication.factor"


def new_transaction_topic(config: BrokerConfig, brokers: int) -> NewTopic:
    """The topic to create when the first client asks for a coordinator.

    With fewer than three replicas, one of them may be down unless the operator says otherwise.
    """
    replication_factor = replicas_of(config, REPLICATION_FACTOR, brokers)
    min_isr = config.int("transaction.state.log.min.isr")
    if not config.is_set("transaction.state.log.min.isr"):
        min_isr = max(1, min(min_isr, replication_factor - 1))
    return NewTopic(
        TRANSACTION_TOPIC,
        partitions=config.int("transaction.state.log.num.partitions"),
        replication_factor=replication_factor,
        overrides={
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(min_isr),
            "segment.bytes": str(config.int("transaction.state.log.segment.bytes")),
            "unclean.leader.election.enable": "false",
        },
    )
