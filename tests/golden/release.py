"""The generator of the golden directory of a release: `python -m tests.golden.release 0.2`.

Run it on the commit of the release, once. Every later release must open the directory.
"""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.broker import BrokerProcess
from tests.support.confluent_client import admin

GOLDEN: Final = Path(__file__).parent
# Small: one partition of each internal topic.
OVERRIDES: Final = (
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=1",
    "log.index.size.max.bytes=1024",
)


def make(golden: Path) -> None:
    """Write the log directory of a broker of this release after a clean stop."""
    with tempfile.TemporaryDirectory() as name:
        broker = BrokerProcess(Path(name), OVERRIDES)
        with broker.running():
            _create(broker.bootstrap, orders=2, payments=1)
            _send(broker.bootstrap)
            _pay(broker.bootstrap)
            _commit(broker.bootstrap)
        shutil.copytree(broker.data, golden, ignore=shutil.ignore_patterns(".lock", "*.lock"))


def _create(bootstrap: str, **partitions: int) -> None:
    client = admin.AdminClient({"bootstrap.servers": bootstrap})
    asked = [admin.NewTopic(topic, count, 1) for topic, count in partitions.items()]
    for created in client.create_topics(asked).values():
        created.result(30)


def _send(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(20):
        producer.produce("orders", f"order {number}", partition=number % 2)
    assert producer.flush(30) == 0


def _pay(bootstrap: str) -> None:
    """One transaction that is committed, and one that is aborted."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "payments-1"})
    producer.init_transactions(30)
    for value, end in (("paid", "commit_transaction"), ("refused", "abort_transaction")):
        producer.begin_transaction()
        producer.produce("payments", value)
        assert producer.flush(30) == 0
        getattr(producer, end)(30)


def _commit(bootstrap: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing"})
    offsets = [TopicPartition("orders", 0, 7), TopicPartition("orders", 1, 4)]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


if __name__ == "__main__":
    make(GOLDEN / f"barnabas-{sys.argv[1]}")
