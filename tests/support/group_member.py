"""A group member in its own process, with any client, that prints its events.

    python -m tests.support.group_member '{"client": "confluent-kafka", "group": "g", ...}'

Prints one line of JSON for each event, with the machine's monotonic time. Every record is
processed, printed, and then committed; confluent-kafka's members repeat a commit that is refused
during a rebalance, at the latest before they revoke a partition. "stop" on standard input makes it
leave, "stall for N" makes it not poll for N seconds, "hold" makes it keep the next record until
"go on"; when standard input ends it dies. With a "store", results and positions are kept there, in
one transaction, and consumption resumes there.
"""

import asyncio
import json
import os
import sys
import threading
import time
import warnings
from collections.abc import Iterable
from typing import Any

from tests.support.atomic_store import AtomicStore


class Orders:
    """The options of a member."""

    def __init__(self) -> None:
        self.is_stopping = False
        self.is_holding = False
        self.stall_s = 0.0
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            order, _, value = line.strip().partition(" for ")
            if order == "stop":
                self.is_stopping = True
            elif order in ("hold", "go on"):
                self.is_holding = order == "hold"
            elif order == "stall":
                self.stall_s = float(value)
        os._exit(9)

    def hold(self) -> None:
        """Hold the current record until "go on"."""
        if self.is_holding:
            tell("holding")
        while self.is_holding:
            time.sleep(0.01)

    def take_stall(self) -> float:
        stall_s, self.stall_s = self.stall_s, 0.0
        return stall_s


def tell(what: str, **facts: object) -> None:
    line = json.dumps({"t": time.monotonic(), "what": what, **facts})
    os.write(1, f"{line}\n".encode())


def _indexes(partitions: Iterable[Any]) -> list[int]:
    return sorted(each.partition for each in partitions)


def _revoked(member: dict[str, Any], partitions: Iterable[Any]) -> None:
    tell("revoked", partitions=_indexes(partitions))
    time.sleep(member.get("slow_revoke_s", 0))


def confluent_member(member: dict[str, Any], orders: Orders) -> None:
    import confluent_kafka

    library: Any = confluent_kafka
    consumer = library.Consumer(
        {
            "bootstrap.servers": member["bootstrap"],
            "group.id": member["group"],
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
            **member.get("config", {}),
        }
    )
    store = AtomicStore(member["store"]) if "store" in member else None
    eager = member.get("config", {}).get("partition.assignment.strategy") in ("range", "roundrobin")
    assign = consumer.assign if eager else consumer.incremental_assign
    processed: dict[int, int] = {}  # positions without an acknowledged commit

    def assigned(_: Any, given: list[Any]) -> None:
        tell("assigned", partitions=_indexes(given))
        if store is not None:
            for each in given:
                each.offset = store.position(each.partition)
            assign(given)

    def commit(partitions: Iterable[int]) -> None:
        """Commit the positions of these; a commit refused during a rebalance is repeated later."""
        ends = {each: processed[each] for each in partitions if each in processed}
        offsets = [library.TopicPartition(member["topic"], *end) for end in ends.items()]
        if not offsets:
            return
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
        except library.KafkaException as e:
            tell("error", why=str(e))
            return
        for partition, end in ends.items():
            del processed[partition]
            tell("committed", partition=partition, offset=end)

    def revoked(_: Any, taken: list[Any]) -> None:
        commit(_indexes(taken))
        _revoked(member, taken)

    def lost(_: Any, taken: list[Any]) -> None:
        for partition in _indexes(taken):
            processed.pop(partition, None)
        tell("lost", partitions=_indexes(taken))

    consumer.subscribe(
        [member["topic"]],
        on_assign=assigned,
        on_revoke=revoked,
        on_lost=lost,
    )
    while not orders.is_stopping:
        if stall_s := orders.take_stall():
            tell("stalling")
            time.sleep(stall_s)
            tell("stalled")
        message = consumer.poll(0.1)
        if message is not None:
            orders.hold()
        if message is not None and message.error() is not None:
            tell("error", why=str(message.error()))
        elif message is not None and (
            store is None or store.process(message.partition(), message.offset())
        ):
            tell("record", partition=message.partition(), offset=message.offset())
            processed[message.partition()] = message.offset() + 1
        commit(list(processed))
    tell("leaving")
    consumer.close()


def kafka_python_member(member: dict[str, Any], orders: Orders) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import kafka.coordinator.assignors.range
        import kafka.errors
    library: Any = kafka
    base: Any = kafka.coordinator.assignors.range.RangePartitionAssignor

    class SlowRange(base):  # type: ignore[misc]  # the library has no types
        """The range assignor, with a slow group leader."""

        @classmethod
        def assign(cls, cluster: Any, members: Any) -> Any:
            if len(members) > 1:
                time.sleep(member.get("slow_assign_s", 0))
            return super().assign(cluster, members)

    class Listener(library.ConsumerRebalanceListener):  # type: ignore[misc]  # neither here
        def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            tell("assigned", partitions=_indexes(assigned))

        def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            _revoked(member, revoked)

        def on_partitions_lost(self, lost: Iterable[Any]) -> None:
            tell("lost", partitions=_indexes(lost))

    consumer = library.KafkaConsumer(
        bootstrap_servers=member["bootstrap"].split(","),
        group_id=member["group"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=[SlowRange],
        **member.get("config", {}),
    )
    consumer.subscribe([member["topic"]], listener=Listener())
    while not orders.is_stopping:
        # It drops a join that outlasts a poll if new partitions caused it; it reads the
        # partitions when it starts.
        patience_ms = 100 if consumer.assignment() else 2_000
        for partition, records in consumer.poll(timeout_ms=patience_ms, max_records=1).items():
            for record in records:
                tell("record", partition=record.partition, offset=record.offset)
                metadata = library.OffsetAndMetadata(record.offset + 1, "", -1)
                try:
                    consumer.commit({partition: metadata})
                    tell("committed", partition=record.partition, offset=record.offset + 1)
                except library.errors.KafkaError as e:
                    tell("error", why=str(e))
    tell("leaving")
    consumer.close()


async def aiokafka_member(member: dict[str, Any], orders: Orders) -> None:
    import aiokafka
    import aiokafka.coordinator.assignors.range
    import aiokafka.errors

    library: Any = aiokafka
    assignor = library.coordinator.assignors.range.RangePartitionAssignor

    class Listener(library.ConsumerRebalanceListener):  # type: ignore[misc]  # neither here
        async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            tell("assigned", partitions=_indexes(assigned))

        async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            tell("revoked", partitions=_indexes(revoked))

    consumer = library.AIOKafkaConsumer(
        bootstrap_servers=member["bootstrap"],
        group_id=member["group"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=[assignor],
        **member.get("config", {}),
    )
    consumer.subscribe([member["topic"]], listener=Listener())
    await consumer.start()
    while not orders.is_stopping:
        for partition, records in (await consumer.getmany(timeout_ms=100, max_records=1)).items():
            for record in records:
                tell("record", partition=record.partition, offset=record.offset)
                try:
                    await consumer.commit({partition: record.offset + 1})
                    tell("committed", partition=record.partition, offset=record.offset + 1)
                except library.errors.KafkaError as e:
                    tell("error", why=str(e))
    tell("leaving")
    await consumer.stop()


def main() -> None:
    member = json.loads(sys.argv[1])
    orders = Orders()
    tell("begun")
    if member["client"] == "confluent-kafka":
        confluent_member(member, orders)
    elif member["client"] == "kafka-python":
        kafka_python_member(member, orders)
    else:
        asyncio.run(aiokafka_member(member, orders))
    tell("left")
    os._exit(0)


if __name__ == "__main__":
    main()
