"""The state of a mirror, stored in the target cluster: pairs of source and target offsets.

After every step the topic `__barnabas_mirror` gets a record per partition: the next source offset
to copy, and the target offset that it will get. Between two such records both clusters have the
same records in the same order. So counting records translates any offset, even if the source has
gaps. Records that their neighbours imply are deleted, and if there are very many, every other one
of the older half is too.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, Message

from barnabas.cli.client import ClusterClients, admin, create_topics
from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.io.partition_reader import PartitionReader
from barnabas.cli.io.start_positions import Positions, StartKind, StartPosition
from barnabas.spark.side_topics import MIRROR_STATE

_DELIVERED_WITHIN_S: Final = 60.0
_MOST_SYNCS: Final = 500  # of one partition
# Small segments, so that compaction removes deleted and replaced records soon.
_CONFIG: Final = {"cleanup.policy": "compact", "segment.bytes": str(1024 * 1024)}


class Lineage(NamedTuple):
    """A source topic and its copy, both with their topic ids, which are never reused."""

    cluster_id: str
    source: str
    source_id: str
    target: str
    target_id: str


class OffsetSync(NamedTuple):
    """The record at offset `source` has, or will get, offset `target` in the copy.

    `leader_epoch` is that of the source's log when it was read up to there; -1 if unknown.
    """

    source: int
    target: int
    leader_epoch: int = -1

    def follows(self, before: "OffsetSync") -> bool:
        """True if there are no gaps between the two, so that all offsets between are known."""
        return self.source - before.source == self.target - before.target


def superfluous(syncs: Sequence[OffsetSync]) -> list[OffsetSync]:
    """The syncs, in ascending order, that can be deleted; never the first or the last."""
    inner = list(zip(syncs, syncs[1:], syncs[2:], strict=False))
    implied = [
        sync for before, sync, after in inner if sync.follows(before) and after.follows(sync)
    ]
    kept = [sync for sync in syncs if sync not in implied]
    return [*implied, *(kept[1 : len(kept) // 2 : 2] if len(kept) > _MOST_SYNCS else [])]


class MirrorState:
    """The state of the mirror: read once, then updated with every write."""

    def __init__(self, target: ClusterClients) -> None:
        """Read the whole topic; create it if it does not exist. Raises CommandFailed."""
        self._target = target
        self._syncs: dict[tuple[Lineage, int], dict[int, OffsetSync]] = {}
        client, metadata = target.admin()
        if MIRROR_STATE not in metadata.topics:
            topic = admin.NewTopic(MIRROR_STATE, 1, min(3, len(metadata.brokers)), config=_CONFIG)
            create_topics(client, [topic])
        else:
            self._read()

    def syncs(self, lineage: Lineage, partition: int) -> list[OffsetSync]:
        """The syncs of a partition, in ascending order."""
        return sorted(self._syncs.get((lineage, partition), {}).values())

    def copied_from(self, target: str, target_id: str) -> Lineage | None:
        """The lineage of the topic, if it is a copy."""
        found = [
            key for key, _ in self._syncs if (key.target, key.target_id) == (target, target_id)
        ]
        return found[0] if found else None

    def write(self, lineage: Lineage, syncs: Mapping[int, OffsetSync]) -> None:
        """Store the progress of these partitions with acks=all. Raises CommandFailed."""
        records: dict[str, str | None] = {}
        for partition, sync in syncs.items():
            value = {"target": sync.target, "leaderEpoch": sync.leader_epoch}
            records[_key(lineage, partition, sync.source)] = json.dumps(value)
            known = self._syncs.setdefault((lineage, partition), {})
            known[sync.source] = sync
            for each in superfluous(self.syncs(lineage, partition)):
                records[_key(lineage, partition, each.source)] = None
                del known[each.source]
        self._produce(records)

    def _produce(self, records: Mapping[str, str | None]) -> None:
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        producer, _ = self._target.producer({"acks": "all", "enable.idempotence": True})
        for key, value in records.items():
            producer.produce(MIRROR_STATE, value, key, on_delivery=delivered)
        if producer.flush(_DELIVERED_WITHIN_S) or failed:
            why = failed[0].str() if failed else "timed out"
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
                f"{MIRROR_STATE} on {self._target.bootstrap} is not the state of a mirror: {error}"
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
            known[source] = OffsetSync(source, found["target"], found.get("leaderEpoch", -1))


def _key(lineage: Lineage, partition: int, source: int) -> str:
    return json.dumps([*lineage, partition, source])
