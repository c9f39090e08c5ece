"""What a mirror has done, kept in the cluster that it writes to: which offset became which.

A topic there, `__barnabas_mirror`, gets a record for every partition after every step: the next
offset to copy, and the offset that it will have. Between two of them records lie in the same order
in both clusters, so how many there are tells where each is, whatever gaps the source has. Those
that say no more than their neighbours are deleted, and of very many the older ones are thinned.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, Message

from barnabas.cli.client import Cluster, admin, create_topics
from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.io.partition_reader import PartitionReader
from barnabas.cli.io.start_positions import Positions, StartKind, StartPosition
from barnabas.spark.side_topics import MIRROR_STATE

_DELIVERED_WITHIN_S: Final = 60.0
_MOST_SYNCS: Final = 500  # of one partition
# In small segments, so that what was deleted or replaced goes soon.
_CONFIG: Final = {"cleanup.policy": "compact", "segment.bytes": str(1024 * 1024)}


class Lineage(NamedTuple):
    """One topic of one cluster, copied to one topic; both by their ids, which no other will have"""

    cluster_id: str
    source: str
    source_id: str
    target: str
    target_id: str


class Sync(NamedTuple):
    """The record at `source` in one cluster is, or will be, at `target` in the other.

    The source's log had that leader epoch when it was read up to there; -1 if that is not known.
    """

    source: int
    target: int
    leader_epoch: int = -1

    def follows(self, before: "Sync") -> bool:
        """Whether there are no gaps between the two, so that what lies between is known."""
        return self.source - before.source == self.target - before.target


def superfluous(syncs: Sequence[Sync]) -> list[Sync]:
    """Which of these, by rising offsets, can be forgotten; never the first or the last."""
    inner = list(zip(syncs, syncs[1:], syncs[2:], strict=False))
    told = [sync for before, sync, after in inner if sync.follows(before) and after.follows(sync)]
    kept = [sync for sync in syncs if sync not in told]
    return [*told, *(kept[1 : len(kept) // 2 : 2] if len(kept) > _MOST_SYNCS else [])]


class MirrorState:
    """The state as it was read, and as it has been written since."""

    def __init__(self, target: Cluster) -> None:
        """Read all there is; the topic is made if it is missing. Raises CommandFailed."""
        self._target = target
        self._syncs: dict[tuple[Lineage, int], dict[int, Sync]] = {}
        client, metadata = target.admin()
        if MIRROR_STATE not in metadata.topics:
            topic = admin.NewTopic(MIRROR_STATE, 1, min(3, len(metadata.brokers)), config=_CONFIG)
            create_topics(client, [topic])
        else:
            self._read()

    def syncs(self, lineage: Lineage, partition: int) -> list[Sync]:
        """All that is known of a partition, by rising offsets."""
        return sorted(self._syncs.get((lineage, partition), {}).values())

    def copied_from(self, target: str, target_id: str) -> Lineage | None:
        """What the topic is a copy of, if it is one."""
        found = [
            key for key, _ in self._syncs if (key.target, key.target_id) == (target, target_id)
        ]
        return found[0] if found else None

    def write(self, lineage: Lineage, syncs: Mapping[int, Sync]) -> None:
        """Note where these partitions are now; on return it is safe. Raises CommandFailed."""
        noted: dict[str, str | None] = {}
        for partition, sync in syncs.items():
            value = {"target": sync.target, "leaderEpoch": sync.leader_epoch}
            noted[_key(lineage, partition, sync.source)] = json.dumps(value)
            known = self._syncs.setdefault((lineage, partition), {})
            known[sync.source] = sync
            for each in superfluous(self.syncs(lineage, partition)):
                noted[_key(lineage, partition, each.source)] = None
                del known[each.source]
        self._produce(noted)

    def _produce(self, noted: Mapping[str, str | None]) -> None:
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        producer, _ = self._target.producer({"acks": "all", "enable.idempotence": True})
        for key, value in noted.items():
            producer.produce(MIRROR_STATE, value, key, on_delivery=delivered)
        if producer.flush(_DELIVERED_WITHIN_S) or failed:
            why = failed[0].str() if failed else "no broker answers"
            raise CommandFailed(f"{MIRROR_STATE} on {self._target.bootstrap}: {why}")

    def _read(self) -> None:
        positions = Positions(StartPosition(StartKind.BEGINNING))
        reader = PartitionReader(self._target, MIRROR_STATE, [], positions, follow=False)
        try:
            for batch in reader.batches():
                for message in batch:
                    self._on_read(json.loads(message.key() or b""), message.value())
        except (ValueError, KeyError, TypeError) as error:
            raise CommandFailed(
                f"{MIRROR_STATE} on {self._target.bootstrap} is no state of a mirror: {error}"
            ) from None
        finally:
            reader.close()

    def _on_read(self, key: list[Any], value: bytes | None) -> None:
        *lineage, partition, source = key
        known = self._syncs.setdefault((Lineage(*lineage), partition), {})
        if value is None:
            known.pop(source, None)
        else:
            found = json.loads(value)
            known[source] = Sync(source, found["target"], found.get("leaderEpoch", -1))


def _key(lineage: Lineage, partition: int, source: int) -> str:
    return json.dumps([*lineage, partition, source])
