"""`log dump`: entries of every kind of file, and one line for a damaged one."""

import json
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from barnabas.base.ids import TopicPartition
from barnabas.disk.disk import RealDisk
from barnabas.log.checkpoints import encode_epoch_checkpoint, encode_offset_checkpoint
from barnabas.log.leader_epochs import EpochEntry
from barnabas.log.producers.producer_snapshot import SnapshotEntry, encode_snapshot
from barnabas.wire.records.compression import Codec
from barnabas.wire.records.records import (
    ControlType,
    EndTransactionMarker,
    Record,
    build_batch,
    build_marker,
)
from barnabas.znodes.embedded.journal import Journal
from barnabas.znodes.embedded.nodes import Changed, Created, Deleted
from tests.cli.conftest import Barnabas, Send
from tests.support.broker import BrokerProcess

TIME = 1769860800000
SEGMENT = "00000000000000000000.log"
PLAIN = bytes(
    build_batch(
        [Record(i, TIME + i, b"k%d" % i, b"v%d" % i, (("h", b"1"),)) for i in range(3)],
        leader_epoch=4,
    )
)
PACKED = bytes(
    build_batch(
        [Record(3, TIME, None, b"\xff"), Record(4, TIME, b"gone", None)],
        base_offset=3,
        codec=Codec.ZSTD,
        producer_id=7,
        producer_epoch=1,
        base_sequence=10,
    )
)


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    path = tmp_path / SEGMENT
    path.write_bytes(PLAIN + PACKED)
    return path


def entries(offline: Barnabas, *arguments: object) -> list[dict[str, Any]]:
    ended = offline("log", "dump", *arguments, "--json")
    assert (ended.code, ended.err) == (0, "")
    return [json.loads(line) for line in ended.lines]


def damaged(offline: Barnabas, *arguments: object) -> tuple[list[str], str]:
    ended = offline("log", "dump", *arguments)
    assert ended.code == 1
    assert ended.err.count("\n") == 1
    assert f"{arguments[0]} is damaged: " in ended.err
    return ended.lines, ended.err


def test_a_batch_shows_all_fields_of_its_header(segment: Path, offline: Barnabas) -> None:
    plain, packed, total = entries(offline, segment)
    assert (plain["base_offset"], plain["last_offset"], plain["records"]) == (0, 2, 3)
    assert (plain["leader_epoch"], plain["codec"], plain["crc"]) == (4, "none", "ok")
    assert (plain["base_timestamp"], plain["max_timestamp"]) == (TIME, TIME + 2)
    assert plain["producer_id"] is None
    assert (packed["position"], packed["codec"]) == (len(PLAIN), "zstd")
    assert (packed["producer_id"], packed["producer_epoch"]) == (7, 1)
    assert (packed["base_sequence"], packed["last_sequence"]) == (10, 11)
    assert (total["batches"], total["records"], total["next_offset"]) == (2, 5, 5)


def test_records_are_shown_on_request(segment: Path, offline: Barnabas) -> None:
    lines = offline("log", "dump", segment, "--records").lines
    assert (
        lines[2] == '  record offset=0 timestamp=2026-01-31T12:00:00.000Z key="k0" value="v0"'
        ' headers=[h="1"]'
    )
    assert lines[6].endswith("key=null value=0xff")
    assert lines[7].endswith('key="gone" value=null')
    records = [e for e in entries(offline, segment, "-r") if e["kind"] == "record"]
    assert [record["value"] for record in records] == ["v0", "v1", "v2", {"base64": "/w=="}, None]


def test_transaction_markers_are_shown(tmp_path: Path, offline: Barnabas) -> None:
    marker = build_marker(EndTransactionMarker(ControlType.ABORT, 5), TIME, 7, 1)
    (tmp_path / SEGMENT).write_bytes(marker)
    batch, shown, _ = entries(offline, tmp_path / SEGMENT, "-r")
    assert (batch["control"], batch["transactional"]) == (True, True)
    assert (shown["kind"], shown["type"], shown["coordinator_epoch"]) == ("marker", "abort", 5)


def test_a_wrong_crc_is_reported_and_the_following_batches_are_shown(
    segment: Path, offline: Barnabas
) -> None:
    data = bytearray(PLAIN + PACKED)
    data[len(PLAIN) - 1] ^= 1
    segment.write_bytes(data)
    lines, error = damaged(offline, segment)
    assert "crc=BAD" in lines[1]
    assert "crc=ok" in lines[2]
    assert "at byte 0, wrong CRC of the batch at offset 0" in error


@pytest.mark.parametrize(
    ("tail", "problem"),
    [
        (PLAIN[:20], "truncated: 20 bytes left of a header"),
        (PACKED[:-1], "bytes left of a batch of"),
        (b"\xff" * 100, "not a batch: magic is -1"),
        (PLAIN[:16] + b"\1" + PLAIN[17:], "unsupported message format (magic 1)"),
        (PLAIN[:8] + pack(">i", 5) + PLAIN[12:], "not a batch: size is 17 bytes"),
        (PLAIN, "base offset 0, expected 5 or more"),
    ],
    ids=["header cut", "batch cut", "garbage", "old format", "bad length", "offsets go back"],
)
def test_batches_before_a_damaged_tail_are_shown(
    tail: bytes, problem: str, segment: Path, offline: Barnabas
) -> None:
    segment.write_bytes(PLAIN + PACKED + tail)
    lines, error = damaged(offline, segment)
    assert sum(line.startswith("batch") for line in lines) >= 2
    assert f"at byte {len(PLAIN + PACKED)}, " in error
    assert problem in error


def test_preallocated_space_is_not_damage(segment: Path, offline: Barnabas) -> None:
    segment.write_bytes(PLAIN + bytes(5000))
    assert [entry["kind"] for entry in entries(offline, segment)] == ["batch", "unused", "total"]


def test_records_that_do_not_decompress_are_damage(segment: Path, offline: Barnabas) -> None:
    broken = bytearray(PACKED)
    broken[70] ^= 0xFF
    segment.write_bytes(PLAIN + broken)
    _, error = damaged(offline, segment, "--deep")
    assert f"at byte {len(PLAIN)}, " in error


def test_indexes_are_shown_without_their_unused_end(segment: Path, offline: Barnabas) -> None:
    index = segment.with_suffix(".index")
    index.write_bytes(pack(">ii", 4, len(PLAIN)) + bytes(80))
    times = segment.with_suffix(".timeindex")
    times.write_bytes(pack(">qi", TIME, 2) + pack(">qi", TIME + 2, 4) + bytes(24))
    entry, unused = entries(offline, index, "--deep")
    assert (entry["offset"], entry["position"]) == (4, len(PLAIN))
    assert (unused["position"], unused["size"]) == (8, 80)
    assert [e.get("timestamp") for e in entries(offline, times)] == [TIME, TIME + 2, None]


def test_an_index_that_does_not_increase_or_points_to_no_batch_is_damaged(
    segment: Path, offline: Barnabas
) -> None:
    index = segment.with_suffix(".index")
    index.write_bytes(pack(">ii", 4, len(PLAIN)) + pack(">ii", 3, 900))
    assert "at byte 8, offset and position do not increase" in damaged(offline, index)[1]
    index.write_bytes(pack(">ii", 4, len(PLAIN) + 1))
    assert "no batch with offset 4 at byte" in damaged(offline, index, "--deep")[1]
    index.write_bytes(pack(">ii", 4, len(PLAIN)) + b"\1\2\3")
    assert "at byte 8, truncated entry of 8 bytes" in damaged(offline, index)[1]


def test_every_file_of_a_log_directory_is_dumped(tmp_path: Path, offline: Barnabas) -> None:
    partition = tmp_path / "orders-0"
    partition.mkdir()
    producer = SnapshotEntry(7, 1, 11, 4, 1, TIME, -1, -1)
    for name, data in {
        "00000000000000000005.snapshot": encode_snapshot([producer]),
        "00000000000000000000.txnindex": pack(">hqqqq", 0, 7, 1, 3, 1),
        "leader-epoch-checkpoint": encode_epoch_checkpoint([EpochEntry(4, 0)]),
        "partition.metadata": b"version: 0\ntopic_id: e-AF1BVIRWuOBcEiEOjEhA",
        "unknown": b"?",
    }.items():
        (partition / name).write_bytes(data)
    offsets = encode_offset_checkpoint({TopicPartition("orders", 0): 5})
    (tmp_path / "replication-offset-checkpoint").write_bytes(offsets)
    (tmp_path / "meta.properties").write_text("#\nversion=0\nbroker.id=3\ncluster.id=x\n")
    (tmp_path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    found = {Path(entry.pop("file")).name: entry for entry in entries(offline, tmp_path)}
    assert found["00000000000000000005.snapshot"] == {"kind": "producer", **producer._asdict()}
    assert found["00000000000000000000.txnindex"]["last_offset"] == 3
    assert found["leader-epoch-checkpoint"] == {"kind": "epoch", "epoch": 4, "start_offset": 0}
    assert found["partition.metadata"]["topic_id"] == "e-AF1BVIRWuOBcEiEOjEhA"
    assert found["replication-offset-checkpoint"]["offset"] == 5
    assert found["meta.properties"]["broker.id"] == "3"
    assert found[".kafka_cleanshutdown"]["brokerEpoch"] == -1
    assert "unknown" not in found


def test_the_journal_of_the_znode_tree_is_shown_change_by_change(
    tmp_path: Path, offline: Barnabas
) -> None:
    path, journal = tmp_path / "znodes.journal", Journal(RealDisk(str(tmp_path)))
    nodes = journal.open()
    journal.write(1, [Created("/a", b"one", 0), Created("/a/b", b"\xff", 7)])
    journal.write(2, [Changed("/a", b"two"), Deleted("/a/b")])
    snapshot, *found = entries(offline, path)
    assert (snapshot["kind"], snapshot["zxid"]) == ("snapshot", 0)
    changes = [each for each in found if each["kind"] != "node"]
    assert len(found) - len(changes) == snapshot["nodes"] == len(nodes)
    assert [(each["kind"], each["zxid"], each["path"], each.get("value")) for each in changes] == [
        ("create", 1, "/a", "one"),
        ("create", 1, "/a/b", {"base64": "/w=="}),
        ("change", 2, "/a", "two"),
        ("delete", 2, "/a/b", None),
    ]
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert entries(offline, path)[-1]["kind"] == "torn"
    path.write_bytes(whole.replace(b"one", b"eno"))
    assert "corrupt line before the end" in damaged(offline, path)[1]


def test_lock_files_show_their_purpose(tmp_path: Path, offline: Barnabas) -> None:
    for name in (".lock", "znodes.lock"):
        (tmp_path / name).write_bytes(b"")
        assert "no other uses the log directory" in offline("log", "dump", tmp_path / name).lines[1]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("znodes.journal", b""),
        ("00000000000000000005.snapshot", encode_snapshot([])[:-1] + b"\1"),
        ("00000000000000000005.txnindex", b"\0" * 20),
        ("leader-epoch-checkpoint", b"0\n2\n0 0\n"),
        ("recovery-point-offset-checkpoint", b"\xff\n"),
        ("meta.properties", b"\xff"),
        (".kafka_cleanshutdown", b"{"),
    ],
)
def test_every_damaged_file_is_reported_in_one_line(
    name: str, data: bytes, tmp_path: Path, offline: Barnabas
) -> None:
    (tmp_path / name).write_bytes(data)
    damaged(offline, tmp_path / name)


def test_a_file_that_is_not_a_brokers_is_rejected(tmp_path: Path, offline: Barnabas) -> None:
    (tmp_path / "notes.txt").write_text("?")
    for path, message in (
        (tmp_path / "notes.txt", "not a file of a broker"),
        (tmp_path, "not a file of a broker"),
        (tmp_path / "absent", "no such file or directory"),
    ):
        ended = offline("log", "dump", path)
        assert (ended.code, ended.out) == (1, b"")
        assert message in ended.err


def test_the_files_of_a_running_broker_are_intact(
    topic: str, barnabas: Barnabas, send: Send, broker: BrokerProcess
) -> None:
    send(topic, *range(100), "-p", 0, "-z", "gzip")
    found = entries(barnabas, broker.data / f"{topic}-0", "--deep", "--records")
    records = [entry["value"] for entry in found if entry["kind"] == "record"]
    assert records == [str(i) for i in range(100)]


def test_records_of_the_transaction_log_are_decoded(tmp_path: Path, offline: Barnabas) -> None:
    folder = tmp_path / "__transaction_state-3"
    folder.mkdir()
    # As Apache Kafka 3.9 writes them: key and value of version 0.
    key = pack(">hh7s", 0, 7, b"clerk-1")
    value = pack(">hqhibi", 0, 7, 1, 60_000, 1, 1) + pack(">h8sii", 8, b"payments", 1, 2)
    value += pack(">qq", TIME + 5, TIME)
    batch = build_batch([Record(0, TIME, key, value), Record(1, TIME, key, None)])
    (folder / SEGMENT).write_bytes(bytes(batch))
    lines = offline("log", "dump", folder / SEGMENT, "--records", "--json").lines
    _, state, tombstone, _ = map(json.loads, lines)
    assert (state["transactional_id"], state["state"]) == ("clerk-1", "Ongoing")
    assert (state["producer_id"], state["producer_epoch"]) == (7, 1)
    assert (state["partitions"], state["start_timestamp"]) == ("payments-2", TIME)
    assert tombstone["transactional_id"] == "clerk-1"
    assert tombstone["value"] is None


def test_a_record_that_is_no_transaction_state_is_printed_raw(
    tmp_path: Path, offline: Barnabas
) -> None:
    folder = tmp_path / "__transaction_state-0"
    folder.mkdir()
    records = [Record(0, TIME, b"\0\0\0\1a", b"\0"), Record(1, TIME, b"\0\7", b"newer")]
    (folder / SEGMENT).write_bytes(bytes(build_batch(records)))
    lines = offline("log", "dump", folder / SEGMENT, "--records", "--json").lines
    _, damaged, unknown, _ = map(json.loads, lines)
    assert "malformed" in damaged["unreadable"]
    assert unknown["value"] == "newer"
