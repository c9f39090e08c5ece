"""What an audit finds: what each replica holds, what is wrong with it, what is worth knowing."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from barnabas.base.ids import TopicPartition
from barnabas.spark.audit.audit_files import Replica

Key = tuple[int, TopicPartition]  # a broker, and one of its replicas


class Kind(StrEnum):
    """What an audit looks at; each as the claim that holds when nothing is found."""

    FILES = "every batch can be read, and has the CRC that it says"
    OFFSETS = "offsets are dense: none is missing, none is there twice"
    EPOCHS = "leader epochs never fall along a log, and are those of its checkpoint"
    REPLICAS = "replicas are identical below the high watermark, and lost nothing committed"
    ARCHIVE = "the archive has what its manifest says, and what the log says"


class Finding(NamedTuple):
    """Something that is wrong with a replica; `places` are how many of the kind there are."""

    kind: Kind
    partition: TopicPartition
    broker: int
    offset: int | None
    what: str
    places: int = 1

    def __str__(self) -> str:
        more = f" (and {self.places - 1:,} more such places)" if self.places > 1 else ""
        return f"{self.partition} on broker {self.broker}: {self.what}{more}"


class Held(NamedTuple):
    """What the batches of one replica add up to."""

    batches: int = 0
    records: int = 0
    size: int = 0
    start: int = 0
    end: int = 0
    epoch: int = -1
    first_timestamp: int = -1
    last_timestamp: int = -1


@dataclass
class Audited:
    """All that was found; `findings` are wrong, `notes` are worth knowing."""

    replicas: Sequence[Replica]
    held: Mapping[Key, Held]
    compared: dict[Key, int] = field(default_factory=dict)  # batches equal to the reference's
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    archived: dict[TopicPartition, int] = field(default_factory=dict)  # records equal to the log's
    history: list[tuple[int, int, int]] = field(default_factory=list)  # time, broker, records

    def held_by(self, replica: Replica) -> Held:
        return self.held.get(key_of(replica), Held())


class Range(NamedTuple):
    """Where one replica must be equal to another."""

    replica: Replica
    reference: Replica
    start: int
    end: int


def key_of(replica: Replica) -> Key:
    return replica.broker, replica.partition


def by_partition(replicas: Iterable[Replica]) -> dict[TopicPartition, list[Replica]]:
    found: dict[TopicPartition, list[Replica]] = {}
    for replica in replicas:
        found.setdefault(replica.partition, []).append(replica)
    return found
