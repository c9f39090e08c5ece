"""The checks after a chaos run: of the disks, the producers and the readers."""

import contextlib
import io
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Final

from barnabas.cli.main import run
from barnabas.wire.records.batch import check_crc, headers
from barnabas.wire.records.records import read_records
from tests.chaos.cluster import CutCluster
from tests.chaos.faults import Injected
from tests.chaos.load import Load, Reader, value_of

Content = dict[int, bytes]

REPLACED_ONCE_IN_S: Final = 600


def read_replicas(cluster: CutCluster, topic: str, partitions: int) -> list[Content]:
    """The records of each partition by offset; its replicas must be the same byte by byte.

    The brokers have stopped, with nothing left to copy.
    """
    contents = []
    for partition in range(partitions):
        replicas = [broker.segments(topic, partition) for broker in cluster.brokers.values()]
        assert len(set(replicas)) == 1, f"the replicas of {topic}-{partition} differ: " + ", ".join(
            f"{len(replica)} bytes" for replica in replicas
        )
        contents.append(_records(replicas[0]))
    return contents


def _records(segments: bytes) -> Content:
    found: Content = {}
    for position, header in headers(segments):
        batch = segments[position : position + header.size]
        assert check_crc(batch)
        assert header.base_offset == len(found), "offsets are not dense"
        for record in read_records(batch):
            found[record.offset] = record.value or b""
    return found


def verify_folders(cluster: CutCluster) -> None:
    """The output of `barnabas log verify` for all brokers' disks."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = run(["log", "verify", *(str(broker.data) for broker in cluster.brokers.values())])
    assert code == 0, said.getvalue()


def judge_loads(loads: Sequence[Load], contents: Sequence[Content]) -> None:
    """Every sent record exists once, in order, at the acknowledged offset."""
    for load in loads:
        assert not load.errors, load.errors[:10]
        for partition, content in enumerate(contents):
            prefix = b"%d:" % load.number
            found = [value for value in content.values() if value.startswith(prefix)]
            sent = [value_of(load.number, partition, n) for n in range(load.sent[partition])]
            assert found == sent, _first_difference(found, sent)
            for number, offset, _ in load.acknowledged[partition]:
                assert offset is None or content[offset] == sent[number], (
                    partition,
                    number,
                    offset,
                )


def _first_difference(found: list[bytes], sent: list[bytes]) -> str:
    for index, (one, other) in enumerate(zip(found, sent, strict=False)):
        if one != other:
            return f"number {index}: {one!r} in place of {other!r}"
    return f"{len(found)} in place of {len(sent)}"


def judge_readers(readers: Sequence[Reader], contents: Sequence[Content]) -> None:
    """No reader saw a record that later vanished or changed, and in the end all read everything."""
    for reader in readers:
        assert not reader.errors, reader.errors[:10]
        for partition, content in enumerate(contents):
            for offset, value in reader.seen[partition].items():
                assert content.get(offset) == value, (partition, offset, value, content.get(offset))
            assert len(reader.seen[partition]) == len(content)


def judge_replacements(readers: Sequence[Reader], seconds: float) -> None:
    """Clients get stuck by their own bugs only rarely; more often means a bug of the brokers."""
    replaced = [str(each) for reader in readers for each in reader.replacements]
    assert len(replaced) <= 1 + seconds // REPLACED_ONCE_IN_S, "\n".join(replaced)


def unavailability(faults: Sequence[Injected], loads: Sequence[Load]) -> list[float]:
    """For each fault of a leader, the longest time without an acknowledgement in its partitions."""
    return [
        max(_longest_gap(fault, partition, loads) for partition in fault.led)
        for fault in faults
        if fault.led
    ]


def _longest_gap(fault: Injected, partition: int, loads: Sequence[Load]) -> float:
    times = sorted(each.at for load in loads for each in load.acknowledged[partition])
    gaps = [
        after - max(before, fault.at)
        for before, after in pairwise(times)
        if after > fault.at and before < fault.over_at
    ]
    return max(gaps, default=0.0)


def summary(gaps: Sequence[float]) -> str:
    if not gaps:
        return "no leader was hit"
    return f"p50 {median(gaps):.2f} s, max {max(gaps):.2f} s, of {len(gaps)}"
