"""Golden files of a real Kafka broker are read as Kafka itself reads them."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct
from typing import Any, Final

import pytest

from barnabas.base.ids import BrokerId, LeaderEpoch, TopicPartition
from barnabas.base.randomness import Random
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.topic_config import TopicConfig, resolve
from barnabas.disk.disk import RealDisk
from barnabas.log.checkpoints import decode_epoch_checkpoint, decode_offset_checkpoint
from barnabas.log.leader_epochs import EpochEnd, EpochEntry
from barnabas.log.log import Log
from barnabas.log.logs import Logs
from barnabas.log.producers.producer_snapshot import SnapshotEntry, decode_snapshot, encode_snapshot
from barnabas.log.segment.index import OffsetIndex, TimeIndex
from barnabas.wire.records.batch import BatchHeader, check_crc, headers
from barnabas.wire.records.compression import Codec
from barnabas.wire.records.records import Record, read_marker, read_records
from tests.golden.content import content
from tests.golden.topics import INDEX_BYTES, TOPICS
from tests.log.batches import read_batches

GOLDEN: Final = Path(__file__).parent.parent / "golden" / "kafka-3.9.1"
STATES: Final = ("clean", "killed")
BROKER: Final = BrokerConfig({"log.index.size.max.bytes": str(INDEX_BYTES)})
CHECKPOINTS: Final = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
)


class Golden:
    """One copy of a broker's log directory, and what Kafka reported of it."""

    def __init__(self, state: str, folder: Path) -> None:
        told = json.loads((GOLDEN / f"{state}.json").read_text())
        self.made_at_ms: int = told["made_at_ms"]
        self.partitions: dict[str, Any] = told["partitions"]
        self.files: dict[str, list[list[Any]]] = told["files"]
        self.folder = folder
        self.opened: list[Logs] = []
        shutil.copytree(GOLDEN / state, folder)

    def now_ms(self) -> int:
        return self.made_at_ms

    def entries(self, name: str) -> list[dict[str, Any]]:
        rows = self.files[name]
        return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]

    def dumped(self, suffix: str) -> Iterator[tuple[Path, list[dict[str, Any]]]]:
        for name in self.files:
            if name.endswith(suffix):
                yield self.folder / name, self.entries(name)

    def open(self) -> Logs:
        logs = Logs([RealDisk(str(self.folder))], clock=self, random=Random(1))
        self.opened.append(logs)
        cluster_id = logs.stored_cluster_id()
        assert cluster_id is not None
        logs.acquire(BrokerId(0), cluster_id)
        assert logs.open_all(config_of) == []
        return logs


def config_of(topic: str) -> TopicConfig:
    return resolve(TOPICS.get(topic, {}), BROKER)


@pytest.fixture
def copies(tmp_path: Path) -> Iterator[Callable[[str], Golden]]:
    made: list[Golden] = []

    def copy(state: str) -> Golden:
        made.append(Golden(state, tmp_path / state))
        return made[-1]

    yield copy
    for each in made:
        for logs in each.opened:
            logs.release()


@pytest.fixture(params=STATES)
def golden(request: pytest.FixtureRequest, copies: Callable[[str], Golden]) -> Golden:
    return copies(request.param)


@pytest.fixture
def clean(copies: Callable[[str], Golden]) -> Golden:
    return copies("clean")


@pytest.fixture
def killed(copies: Callable[[str], Golden]) -> Golden:
    return copies("killed")


def log_of(logs: Logs, name: str) -> Log:
    topic, _, partition = name.rpartition("-")
    log = logs.get(TopicPartition(topic, int(partition)))
    assert log is not None
    return log


def as_json(record: Record) -> list[Any]:
    fields = [[name, content(value)] for name, value in record.headers]
    return [record.offset, record.timestamp, content(record.key), content(record.value), fields]


# Opened


def test_every_record_is_what_kafkas_consumer_got(golden: Golden) -> None:
    logs = golden.open()
    for name, told in golden.partitions.items():
        log = log_of(logs, name)
        assert (log.log_start_offset, log.log_end_offset) == (told["start"], told["end"]), name
        read = [
            as_json(record)
            for header, batch in read_batches(log)
            if not header.is_control
            for record in read_records(batch)
            if record.offset >= log.log_start_offset
        ]
        assert read == told["records"], name
    assert len(logs) == len(golden.partitions) + 2  # the coordinators' topics


def test_times_are_found_where_kafka_finds_them(golden: Golden) -> None:
    logs = golden.open()
    for name, told in golden.partitions.items():
        log = log_of(logs, name)
        undecided = log.producers.first_undecided_offset or log.log_end_offset
        for moment, offset in told["times"]:
            found = log.offset_for_timestamp(moment)
            # Kafka was asked for what is committed.
            visible = found.offset if found and found.offset < undecided else None
            assert visible == offset, (name, moment)
        latest = log.max_timestamp_offset()
        assert [latest.timestamp, latest.offset] if latest else told["max_timestamp"] == [-1, -1]


def test_open_transactions_hold_back_readers_of_what_is_committed(golden: Golden) -> None:
    logs = golden.open()
    producers = log_of(logs, "transactions-0").producers
    told = golden.partitions["transactions-0"]
    undecided = producers.first_undecided_offset
    assert undecided is not None
    assert max(told["committed"]) < undecided <= max(record[0] for record in told["records"])


def test_producers_go_on_where_their_batches_ended(golden: Golden) -> None:
    logs = golden.open()
    for name in golden.partitions:
        log = log_of(logs, name)
        last = {
            header.producer_id: header.last_sequence
            for segment in log.segments
            for _, header in segment.headers()
            if header.producer_id >= 0 and not header.is_control
        }
        known = {
            number: state.next_sequence - 1 for number, state in log.producers.producers.items()
        }
        assert known == last, name


def test_leader_epochs_end_where_the_next_begins(golden: Golden) -> None:
    logs = golden.open()
    log = log_of(logs, "segments-0")
    later = [EpochEntry(4, 120)] if log.log_end_offset > 120 else []
    assert list(log.epochs.entries) == [EpochEntry(0, 0), EpochEntry(3, 80), *later]
    assert log.end_offset_for_epoch(LeaderEpoch(0)) == EpochEnd(0, 80)
    assert log.end_offset_for_epoch(LeaderEpoch(2)) == EpochEnd(0, 80)
    assert log.end_offset_for_epoch(LeaderEpoch(3)) == EpochEnd(3, 120)
    assert list(log_of(logs, "deleted-0").epochs.entries) == [EpochEntry(0, 33)]


# File by file


def test_batches_are_what_kafkas_dump_shows(golden: Golden) -> None:
    for path, told in golden.dumped(".log"):
        data = path.read_bytes()
        found = [
            dumped(position, header, data[position : position + header.size])
            for position, header in headers(data[: len(data.rstrip(b"\0")) + 61])
        ] if any(data) else []  # fmt: skip
        assert found == told, path


def dumped(position: int, header: BatchHeader, batch: bytes) -> dict[str, Any]:
    marker = read_marker(batch) if header.is_control else None
    return {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.record_count,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "deleteHorizonMs": header.base_timestamp if header.has_delete_horizon else None,
        "position": position,
        "LogAppendTime" if header.log_append_time else "CreateTime": header.max_timestamp,
        "size": header.size,
        "magic": header.magic,
        "compresscodec": Codec(header.codec).name.lower(),
        "crc": header.crc,
        "isvalid": check_crc(batch),
        "markers": [marker.control_type.name] if marker else [],
    }


def test_the_files_show_every_feature_of_a_batch(clean: Golden) -> None:
    batches = [batch for _, told in clean.dumped(".log") for batch in told]
    assert {batch["compresscodec"] for batch in batches} == {
        "none",
        "gzip",
        "snappy",
        "lz4",
        "zstd",
    }
    assert {marker for batch in batches for marker in batch["markers"]} == {"ABORT", "COMMIT"}
    assert {batch["partitionLeaderEpoch"] for batch in batches} == {0, 3}
    assert any(batch["deleteHorizonMs"] for batch in batches)
    assert any(batch["count"] == 0 for batch in batches)
    assert any("LogAppendTime" in batch for batch in batches)
    assert any(batch["lastOffset"] - batch["baseOffset"] >= batch["count"] > 0 for batch in batches)


def test_index_entries_are_what_kafkas_dump_shows(clean: Golden) -> None:
    for path, told in clean.dumped("index"):
        base_offset, data = int(path.stem), path.read_bytes()
        found: list[dict[str, int]]
        if path.suffix == ".index":
            entries = OffsetIndex.FORMAT.iter_unpack(data)
            found = [{"offset": base_offset + o, "position": p} for o, p in entries]
        elif path.suffix == ".timeindex":
            entries = TimeIndex.FORMAT.iter_unpack(data)
            found = [{"timestamp": t, "offset": base_offset + o} for t, o in entries]
        else:
            continue
        assert found == told, path


def test_aborted_transactions_are_what_kafkas_dump_shows(clean: Golden) -> None:
    names = ("version", "producerId", "firstOffset", "lastOffset", "lastStableOffset")
    found = [
        dict(zip(names, fields, strict=True))
        for path, _ in clean.dumped(".txnindex")
        for fields in Struct(">hqqqq").iter_unpack(path.read_bytes())
    ]
    assert found == [entry for _, told in clean.dumped(".txnindex") for entry in told]
    assert len(found) == 5


def test_replayed_markers_give_the_entries_of_kafkas_index_of_aborted_transactions(
    clean: Golden,
) -> None:
    logs = clean.open()
    log = log_of(logs, "transactions-0")
    log.producers.clear()
    completed = []
    for header, batch in read_batches(log):
        marker = read_marker(batch) if header.is_control else None
        if marker is None:
            log.producers.apply(header, header.base_offset, header.max_timestamp)
        else:
            completed.append(
                log.producers.apply_marker(
                    header,
                    header.base_offset,
                    header.max_timestamp,
                    coordinator_epoch=marker.coordinator_epoch,
                    aborted=marker.control_type.name == "ABORT",
                )
            )
    aborted = [[0, *each[:4]] for each in completed if each and each.aborted]
    told = [list(entry.values()) for _, entries in clean.dumped(".txnindex") for entry in entries]
    assert aborted == told


def test_recovery_writes_kafkas_index_of_aborted_transactions_again(clean: Golden) -> None:
    before = {path: path.read_bytes() for path in clean.folder.glob("*/*.txnindex")}
    for path in before:
        path.unlink()
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (clean.folder / name).unlink()
    clean.open()
    after = {path: path.read_bytes() for path in clean.folder.glob("*/*.txnindex")}
    assert {path: data for path, data in before.items() if data} == after


def test_snapshots_are_what_kafkas_dump_shows(golden: Golden) -> None:
    for path, told in golden.dumped(".snapshot"):
        entries = decode_snapshot(path.read_bytes())
        assert entries == [snapshot_entry(fields) for fields in told], path
        assert encode_snapshot(entries) == path.read_bytes()


def snapshot_entry(fields: dict[str, Any]) -> SnapshotEntry:
    first_offset = fields["currentTxnFirstOffset"]
    return SnapshotEntry(
        producer_id=fields["producerId"],
        producer_epoch=fields["producerEpoch"],
        last_sequence=fields["lastSequence"],
        last_offset=fields["lastOffset"],
        offset_delta=fields["offsetDelta"],
        timestamp=fields["lastTimestamp"],
        coordinator_epoch=fields["coordinatorEpoch"],
        current_txn_first_offset=-1 if first_offset is None else first_offset,
    )


# Left as Kafka would leave it


def test_opening_and_closing_changes_no_byte_that_kafka_would_not_change(clean: Golden) -> None:
    before = contents(clean.folder)
    logs = clean.open()
    ends = {log.directory: log.log_end_offset for log in logs}
    logs.close({log.partition: log.log_end_offset for log in logs})
    after = contents(clean.folder)
    for name in CHECKPOINTS:
        assert decode_offset_checkpoint(after.pop(name)) == decode_offset_checkpoint(
            before.pop(name)
        )
    gone = {name for name in before if name not in after}
    assert not [
        name for name in after if name not in before and name not in (".lock", "znodes.lock")
    ]
    assert all(is_stale(name, clean) for name in gone), gone
    for name in before.keys() - gone:
        if name.endswith("leader-epoch-checkpoint"):
            # An epoch without a record is forgotten at the start, in Kafka too.
            entries = decode_epoch_checkpoint(before[name])
            kept = [entry for entry in entries if entry.start_offset < ends[name.partition("/")[0]]]
            assert decode_epoch_checkpoint(after[name]) == kept
        else:
            assert after[name] == before[name], name


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def is_stale(name: str, golden: Golden) -> bool:
    """A snapshot of a former clean stop: not the newest, and of no segment."""
    path = golden.folder / name
    newest = max(path.parent.glob("*.snapshot"))
    return path.suffix == ".snapshot" and path != newest and not path.with_suffix(".log").exists()


def test_recovery_builds_the_indexes_that_kafka_had_built(killed: Golden) -> None:
    """Of rolled segments; those of the active one are preallocated, and end in zeros."""
    rolled = {
        path: path.read_bytes()
        for path in killed.folder.glob("*/*index")
        if path.suffix != ".txnindex"
        and 0 < path.stat().st_size < INDEX_BYTES - 12
        and is_of_one_run(path.with_suffix(".log"))
    }
    assert len(rolled) >= 20
    logs = killed.open()
    for log in logs:
        for segment in log.segments:
            segment.recover(log.epochs)
    for path, data in rolled.items():
        assert path.read_bytes() == data, path


def is_of_one_run(path: Path) -> bool:
    """A start counts again when the next index entry is due."""
    return len({header.leader_epoch for _, header in headers(path.read_bytes())}) == 1


def test_zeros_after_the_last_batch_of_a_killed_broker_are_cut(killed: Golden) -> None:
    path = max((killed.folder / "preallocated-0").glob("*.log"))
    assert path.read_bytes().endswith(bytes(1000))
    log = log_of(killed.open(), "preallocated-0")
    assert log.log_end_offset == killed.partitions["preallocated-0"]["end"]
    assert not path.read_bytes().endswith(bytes(10))
