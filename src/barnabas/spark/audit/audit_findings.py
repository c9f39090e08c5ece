"""The result of an audit: totals of each replica, findings and notes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from barnabas.base.ids import TopicPartition
from barnabas.spark.audit.audit_files import ReplicaFiles

Key = tuple[int, TopicPartition]  # a broker, and one of its replicas


class AuditCheck(StrEnum):
    """The checks of an audit, each as the claim that holds if it passes."""

    FILES = "every batch can be read and has a correct CRC"
    OFFSETS = "offsets have no gaps and no duplicates"
    EPOCHS = "leader epochs never decrease and match the leader-epoch checkpoint"
    REPLICAS = "replicas are identical below the high watermark and have all committed records"
    ARCHIVE = "the archive matches its manifest and the log"


class AuditFinding(NamedTuple):
    """A failed check of a replica; `places` counts its occurrences."""

    kind: AuditCheck
    partition: TopicPartition
    broker: int
    offset: int | None
    what: str
    places: int = 1

    def __str__(self) -> str:
        more = f" (and {self.places - 1:,} more)" if self.places > 1 else ""
        return f"{self.partition} on broker {self.broker}: {self.what}{more}"


class ReplicaTotals(NamedTuple):
    """The totals over the batches of one replica."""

    batches: int = 0
    records: int = 0
    size: int = 0
    start: int = 0
    end: int = 0
    epoch: int = -1
    first_timestamp: int = -1
    last_timestamp: int = -1


@dataclass
class AuditResult:
    """The result: `findings` are failed checks, `notes` are only worth knowing."""

    replicas: Sequence[ReplicaFiles]
    totals: Mapping[Key, ReplicaTotals]
    compared: dict[Key, int] = field(default_factory=dict)  # batches equal to the reference's
    findings: list[AuditFinding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    archived: dict[TopicPartition, int] = field(default_factory=dict)  # records equal to the log's
    history: list[tuple[int, int, int]] = field(default_factory=list)  # time, broker, records

    def totals_of(self, replica: ReplicaFiles) -> ReplicaTotals:
        return self.totals.get(key_of(replica), ReplicaTotals())


class ComparedRange(NamedTuple):
    """The offsets [start, end) in which one replica must equal another."""

    replica: ReplicaFiles
    reference: ReplicaFiles
    start: int
    end: int


def key_of(replica: ReplicaFiles) -> Key:
    return replica.broker, replica.partition


def by_partition(replicas: Iterable[ReplicaFiles]) -> dict[TopicPartition, list[ReplicaFiles]]:
    found: dict[TopicPartition, list[ReplicaFiles]] = {}
    for replica in replicas:
        found.setdefault(replica.partition, []).append(replica)
    return found
