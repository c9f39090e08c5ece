"""What a mirror has done, kept in the cluster that it writes to: which offset became which.

A topic there, `__barnabas_mirror`, gets a record for every partition after every step: the next
offset to copy, and the offset that it will have. Between two of them records lie in the same order
in both clusters, so how many there are tells where each is, whatever gaps the source has.
"""

import json
from bisect import bisect_left
from collections.abc import Mapping
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, Message

from barnabas.cli.client import Cluster, admin, await_all
from barnabas.cli.failures import CommandFailed
from barnabas.cli.positions import Kind, Positions, Start
from barnabas.cli.reading import Reader

STATE_TOPIC: Final = "__barnabas_mirror"
_DELIVERED_WITHIN_S: Final = 60.0


class Lineage(NamedTuple):
    """One topic of one cluster, copied to one topic; both by their ids, which no other will have"""

    cluster_id: str
    source: str
    source_id: str
    target: str
    target_id: str


class Sync(NamedTuple):
    """The record at `source` in one cluster is, or will be, at `target` in the other."""

    source: int
    target: int


class MirrorState:
    """The state as it was read, and as it has been written since."""

    def __init__(self, target: Cluster) -> None:
        """Read all there is; the topic is made if it is missing. Raises CommandFailed."""
        self._target = target
        self._syncs: dict[tuple[Lineage, int], list[Sync]] = {}
        client, metadata = target.admin()
        if STATE_TOPIC not in metadata.topics:
            config = {"cleanup.policy": "compact"}
            topic = admin.NewTopic(STATE_TOPIC, 1, min(3, len(metadata.brokers)), config=config)
            await_all(client.create_topics([topic]))
        else:
            self._read()

    def syncs(self, lineage: Lineage, partition: int) -> list[Sync]:
        """All that is known of a partition, by rising offsets."""
        return self._syncs.get((lineage, partition), [])

    def copied_from(self, target: str, target_id: str) -> Lineage | None:
        """What the topic is a copy of, if it is one."""
        found = [
            key for key, _ in self._syncs if (key.target, key.target_id) == (target, target_id)
        ]
        return found[0] if found else None

    def write(self, lineage: Lineage, syncs: Mapping[int, Sync]) -> None:
        """Note where these partitions are now; on return it is safe. Raises CommandFailed."""
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        producer, _ = self._target.producer({"acks": "all", "enable.idempotence": True})
        for partition, sync in syncs.items():
            key = json.dumps([*lineage, partition, sync.source])
            value = json.dumps({"target": sync.target})
            producer.produce(STATE_TOPIC, value, key, on_delivery=delivered)
        if producer.flush(_DELIVERED_WITHIN_S) or failed:
            why = failed[0].str() if failed else "no broker answers"
            raise CommandFailed(f"{STATE_TOPIC} on {self._target.bootstrap}: {why}")
        for partition, sync in syncs.items():
            self._add(lineage, partition, sync)

    def _read(self) -> None:
        positions = Positions(Start(Kind.BEGINNING))
        reader = Reader(self._target, STATE_TOPIC, [], positions, follow=False)
        try:
            for batch in reader.batches():
                for message in batch:
                    *lineage, partition, source = json.loads(message.key() or b"")
                    value = json.loads(message.value() or b"")
                    self._add(Lineage(*lineage), partition, Sync(source, value["target"]))
        except (ValueError, KeyError, TypeError) as error:
            raise CommandFailed(
                f"{STATE_TOPIC} on {self._target.bootstrap} is no state of a mirror: {error}"
            ) from None
        finally:
            reader.close()

    def _add(self, lineage: Lineage, partition: int, sync: Sync) -> None:
        known = self._syncs.setdefault((lineage, partition), [])
        place = bisect_left(known, sync)
        if known[place : place + 1] != [sync]:
            known.insert(place, sync)
