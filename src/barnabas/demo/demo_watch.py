"""Leaders and ISR of the demo's cluster, by public requests."""

import contextlib
import threading
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from barnabas.cli.client import admin, create_topics
from barnabas.cli.exit_codes import CommandFailed
from barnabas.demo.demo_cluster import BROKERS
from barnabas.demo.demo_pipeline import REVENUE
from barnabas.demo.demo_sales import ORDERS

if TYPE_CHECKING:
    from confluent_kafka.admin._metadata import PartitionMetadata

PARTITIONS: Final = {ORDERS: 6, REVENUE: 3}
_LOOK_EVERY_S: Final = 0.25
_ANSWER_WITHIN_S: Final = 2.0
_MOST_LOOKS: Final = 1_000
_QUIET: Final = {"log_level": 0}


class DemoWatch:
    """Polls the brokers; keeps the last answer while none can answer."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})
        self._closed = threading.Event()
        self._looks = 0

    def create_topics(self) -> None:
        """Create the topics of the demo, each partition on every broker."""
        topics = [admin.NewTopic(name, count, BROKERS) for name, count in PARTITIONS.items()]
        create_topics(self._admin, topics)

    def leaders(self) -> dict[int, int]:
        """The leader of each partition of orders. Raises CommandFailed without an answer."""
        while (found := self._partitions()) is None:
            self._wait("no broker returns the leaders of the partitions")
        return {number: each.leader for number, each in found.items()}

    def wait_until_in_sync(self) -> None:
        """Wait until every replica of orders is in sync. Raises CommandFailed after a while"""
        while not (found := self._partitions()) or any(
            len(each.isrs) < BROKERS for each in found.values()
        ):
            self._wait("the restarted broker does not rejoin the ISR")

    def close(self) -> None:
        """End all waiting."""
        self._closed.set()

    def _partitions(self) -> "dict[int, PartitionMetadata] | None":
        with contextlib.suppress(KafkaException):  # the killed broker may be the one asked
            found = self._admin.list_topics(ORDERS, timeout=_ANSWER_WITHIN_S).topics[ORDERS]
            return found.partitions if found.error is None else None
        return None

    def _wait(self, in_vain: str) -> None:
        self._looks += 1
        if self._closed.wait(_LOOK_EVERY_S) or self._looks > _MOST_LOOKS:
            raise CommandFailed(in_vain)
