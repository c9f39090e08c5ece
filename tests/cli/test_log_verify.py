"""`log verify` finds every damage and nothing else; `log stats` counts correctly."""

import builtins
import io
import json
import os
import shutil
from collections.abc import Callable
from errno import EACCES
from pathlib import Path
from struct import pack, pack_into
from threading import Event, Thread
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.cli.log.log_files import find_broker_dirs
from barnabas.cli.log.log_verify import verify
from barnabas.cli.log.verify_report import Problem, VerifyReport
from barnabas.wire.records.batch import HEADER_SIZE, headers, set_crc, set_create_time
from tests.cli.conftest import Barnabas
from tests.support.broker import BrokerProcess
from tests.support.clients import Message
from tests.support.confluent_client import ConfluentClient

GOLDEN: Final = Path(__file__).parent.parent / "golden" / "kafka-3.9.1"
FIRST: Final = "segments-0/00000000000000000000"
ACTIVE: Final = "segments-0/00000000000000000105"
ABORTED: Final = str(next((GOLDEN / "clean").glob("*/*.txnindex")).relative_to(GOLDEN / "clean"))
Damage = Callable[[bytearray], None]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The log directory of a Kafka broker that was stopped cleanly."""
    return Path(shutil.copytree(GOLDEN / "clean", tmp_path / "data"))


def damage(path: Path, change: Damage) -> None:
    content = bytearray(path.read_bytes())
    change(content)
    path.write_bytes(content)


def problems(barnabas: Barnabas, *arguments: object) -> list[str]:
    ended = barnabas("log", "verify", *arguments)
    assert ended.err == ""
    *found, summary = ended.lines
    expected = f": {len(found)} problem" if found else ": no problems"
    assert expected in summary
    assert ended.code == (1 if found else 0)
    return found


@pytest.mark.parametrize("state", ["clean", "killed"])
@pytest.mark.parametrize("options", [[], ["--deep"]])
def test_the_files_of_apache_kafka_have_no_problems(
    state: str, options: list[str], offline: Barnabas
) -> None:
    assert problems(offline, GOLDEN / state, *options) == []


def flip(at: int) -> Damage:
    def change(content: bytearray) -> None:
        content[at] ^= 0x55

    return change


def cut(size: int) -> Damage:
    def change(content: bytearray) -> None:
        del content[-size:]

    return change


def write(at: int, data: bytes) -> Damage:
    def change(content: bytearray) -> None:
        content[at : at + len(data)] = data

    return change


def replace(old: bytes, new: bytes) -> Damage:
    def change(content: bytearray) -> None:
        assert old in content
        content[:] = content.replace(old, new)

    return change


@pytest.mark.parametrize(
    ("file", "change", "what"),
    [
        (f"{FIRST}.log", flip(90), "at byte 0: wrong CRC of the batch at offset 0"),
        (f"{FIRST}.log", write(0, pack(">q", 7)), "base offset 1, expected 8 or more"),
        (f"{FIRST}.log", write(16, b"\1"), "at byte 0: unsupported message format"),
        (f"{FIRST}.log", cut(5), "bytes left of a batch of"),
        (f"{ACTIVE}.log", write(12, pack(">i", 1)), "leader epoch 1 after 3"),
        (f"{ACTIVE}.log", cut(200), "segments-0 has offset 120, but its log ends at 11"),
        (f"{FIRST}.index", write(4, pack(">i", 5)), "at byte 5 of the segment"),
        (f"{FIRST}.index", write(8, bytes(8)), "at byte 8: offset and position do not increase"),
        (f"{FIRST}.index", cut(3), "truncated entry of 8 bytes"),
        (f"{FIRST}.timeindex", flip(7), "at byte 0: maximum timestamp up to offset"),
        (f"{FIRST}.timeindex", write(12, bytes(8)), "timestamp and offset do not increase"),
        (f"{FIRST}.timeindex", write(20, pack(">i", 999)), "is after the segment's end"),
        (f"{FIRST}.timeindex", cut(12), "ends at timestamp"),
        (f"{ACTIVE}.timeindex", cut(12), "ends at timestamp"),
        ("idempotent-0/00000000000000000030.snapshot", flip(30), "CRC is"),
        (ABORTED, flip(1), "unknown version"),
        (ABORTED, cut(1), "truncated entry of 34"),
        (
            ABORTED,
            write(18, pack(">q", 999)),
            "is out of range",
        ),
        (
            "segments-0/leader-epoch-checkpoint",
            replace(b"3 80", b"3 79"),
            "offset 79 has epoch 0",
        ),
        (
            "segments-0/leader-epoch-checkpoint",
            replace(b"3 80", b"3 81"),
            "offset 80 has epoch 3",
        ),
        ("segments-0/leader-epoch-checkpoint", replace(b"0 0", b"9 0"), "do not increase"),
        ("segments-0/leader-epoch-checkpoint", cut(3), "cut off"),
        ("segments-0/partition.metadata", replace(b"topic_id", b"topic"), "holds no topic id"),
        (
            "recovery-point-offset-checkpoint",
            replace(b"segments 0 120", b"segments 0 121"),
            "offset 121",
        ),
        ("replication-offset-checkpoint", replace(b"0\n16\n", b"0\n15\n"), "15 entries expected"),
        ("meta.properties", write(0, b"\xff"), "utf-8"),
        (".kafka_cleanshutdown", cut(1), "Expecting"),
    ],
)
def test_every_damage_is_reported_with_its_position(
    file: str, change: Damage, what: str, data: Path, offline: Barnabas
) -> None:
    damage(data / file, change)
    found = problems(offline, data)
    assert any(what in line for line in found), found
    assert all(line.endswith(")") for line in found)


def test_records_are_checked_only_with_deep(data: Path, offline: Barnabas) -> None:
    def spoil(content: bytearray) -> None:
        _, header = next(headers(bytes(content)))
        batch = content[: header.size]
        batch[HEADER_SIZE + 20] ^= 0xFF
        set_crc(batch)
        content[: header.size] = batch

    damage(data / "recompressed-gzip-0/00000000000000000000.log", spoil)
    assert problems(offline, data) == []
    (found,) = problems(offline, data, "--deep")
    assert "recompressed-gzip-0/00000000000000000000.log at byte 0: " in found


def repeat_offset(content: bytearray) -> None:
    """Give the first two records of the first batch the same offset, as an old broker accepts."""
    _, header = next(headers(bytes(content)))
    batch = content[: header.size]
    assert batch[HEADER_SIZE] < 0x80  # the lengths are of one byte
    second = HEADER_SIZE + 1 + (batch[HEADER_SIZE] >> 1)
    assert batch[second + 3] == 2, "the second offset delta"
    batch[second + 3] = 0
    set_crc(batch)
    content[: header.size] = batch


def lie_about_time(content: bytearray) -> None:
    _, header = next(headers(bytes(content)))
    batch = content[: header.size]
    set_create_time(batch, header.max_timestamp + 1_000)
    content[: header.size] = batch


@pytest.mark.parametrize(
    ("change", "what", "meaning"),
    [
        (repeat_offset, "offset delta", "consumers cannot read this batch"),
        (lie_about_time, "greatest record timestamp", "lookups by time are misled"),
    ],
)
def test_what_a_leader_would_refuse_today_is_reported(
    data: Path, offline: Barnabas, change: Damage, what: str, meaning: str
) -> None:
    damage(data / "preallocated-0/00000000000000000000.log", change)
    found = problems(offline, data / "preallocated-0/00000000000000000000.log", "--deep")
    assert any(what in each and meaning in each for each in found), found


def test_a_missing_or_orphaned_index_is_reported(data: Path, offline: Barnabas) -> None:
    (data / f"{FIRST}.index").rename(data / "segments-0/00000000000000000007.index")
    missing, left_over = sorted(problems(offline, data))
    assert f"{FIRST}.index: is missing (rebuilt at the next start)" in missing
    assert "00000000000000000007.index: has no segment" in left_over


def test_overlapping_segments_are_reported(data: Path, offline: Barnabas) -> None:
    def widen(content: bytearray) -> None:
        *_, (position, header) = headers(bytes(content))
        batch = content[position:]
        pack_into(">i", batch, 23, header.last_offset_delta + 4)
        set_crc(batch)
        content[position:] = batch

    damage(data / f"{FIRST}.log", widen)
    assert any("the next segment begins at 21" in line for line in problems(offline, data))


def test_single_files_can_be_verified(data: Path, offline: Barnabas) -> None:
    damage(data / f"{FIRST}.log", flip(90))
    for name in (".index", ".timeindex"):
        assert problems(offline, data / f"{FIRST}{name}") == []
    assert len(problems(offline, data / f"{FIRST}.log")) == 1
    assert problems(offline, data / f"{ACTIVE}.log", data / "meta.properties") == []


def test_problems_are_printed_as_json(data: Path, offline: Barnabas) -> None:
    damage(data / f"{FIRST}.log", flip(90))
    ended = offline("log", "verify", data / "segments-0", "--json")
    problem, summary = map(json.loads, ended.lines)
    assert problem == {
        "kind": "problem",
        "file": str(data / f"{FIRST}.log"),
        "position": 0,
        "what": "wrong CRC of the batch at offset 0",
        "meaning": "consumers cannot read this batch",
    }
    assert (summary["kind"], summary["problems"], summary["segments"]) == ("summary", 1, 6)


def test_a_file_that_is_not_a_brokers_is_not_verified(tmp_path: Path, offline: Barnabas) -> None:
    (tmp_path / "notes.txt").write_text("?")
    for command in ("verify", "stats"):
        ended = offline("log", command, tmp_path)
        assert (ended.code, ended.out) == (1, b"")
        assert "not a file of a broker" in ended.err
        assert "no such file" in offline("log", command, tmp_path / "absent").err


MOST_WRITTEN: Final = 300


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["segments-0", "produced-0", "compacted-0", "transactions-0"]),
    draw=st.data(),
)
def test_no_flipped_bit_in_a_batch_goes_unnoticed(name: str, draw: Any, tmp_path: Path) -> None:
    """Except in base offset and leader epoch, which no CRC covers."""
    directory = Path(shutil.copytree(GOLDEN / "clean" / name, tmp_path / name, dirs_exist_ok=True))
    path = draw.draw(st.sampled_from(sorted(directory.glob("*.log"))))
    content = bytearray(path.read_bytes())
    position, header = draw.draw(st.sampled_from(list(headers(bytes(content)))))
    covered = [*range(8, 12), *range(16, header.size)]
    content[position + draw.draw(st.sampled_from(covered))] ^= 1 << draw.draw(st.integers(0, 7))
    path.write_bytes(content)
    found: list[Problem] = []
    verify(
        find_broker_dirs([directory])[0], VerifyReport(found.append, lambda size: None, deep=False)
    )
    assert found


def test_a_running_broker_has_no_problems_while_it_appends(
    topic: str, barnabas: Barnabas, broker: BrokerProcess
) -> None:
    client, enough = ConfluentClient(broker.bootstrap), Event()

    def write_on() -> None:
        for _ in range(MOST_WRITTEN):  # more than can be verified in time, on some machines
            if enough.is_set():
                return
            client.produce(topic, [Message(b"x" * 1000, b"k")] * 100, compression="lz4")

    writer = Thread(target=write_on)
    writer.start()
    try:
        for _ in range(10):
            assert problems(barnabas, broker.data / f"{topic}-0", "--deep") == []
    finally:
        enough.set()
        writer.join()


# Unreadable files


GUARDED: Final = (
    (os, "scandir"),
    (os, "listdir"),
    (os, "open"),
    (io, "open"),
    (builtins, "open"),
)


@pytest.fixture
def forbid(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Makes a file or directory unreadable, even for root."""
    forbidden: list[str] = []

    def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
        def checked(path: Any, *arguments: Any, **options: Any) -> Any:
            if str(path) in forbidden:
                raise PermissionError(EACCES, "Permission denied", str(path))
            return function(path, *arguments, **options)

        return checked

    for module, name in GUARDED:
        monkeypatch.setattr(module, name, guarded(getattr(module, name)))
    return lambda path: forbidden.append(str(path))


UNREADABLE: Final = "cannot be read: Permission denied; run as the broker's user"


def test_an_unreadable_directory_is_a_problem(
    data: Path, forbid: Callable[[Path], None], offline: Barnabas
) -> None:
    forbid(data / "segments-0")
    assert problems(offline, data) == [f"{data / 'segments-0'}: {UNREADABLE} (not checked)"]
    for command in ("stats", "dump"):
        ended = offline("log", command, data)
        assert (ended.code, ended.err) == (1, f"barnabas: {data / 'segments-0'}: {UNREADABLE}\n")
        assert ended.out


def test_an_unreadable_log_directory_is_one_problem(
    data: Path, forbid: Callable[[Path], None], offline: Barnabas
) -> None:
    forbid(data)
    assert len(problems(offline, data)) == 1
    for command in ("stats", "dump"):
        ended = offline("log", command, data)
        assert (ended.code, ended.err) == (1, f"barnabas: {data}: {UNREADABLE}\n")


@pytest.mark.parametrize(
    "name",
    [
        f"{FIRST}.log",
        f"{ACTIVE}.log",
        f"{ACTIVE}.index",
        f"{ACTIVE}.timeindex",
        ABORTED,
        "segments-0/partition.metadata",
        "segments-0/leader-epoch-checkpoint",
        "recovery-point-offset-checkpoint",
        "meta.properties",
    ],
)
def test_an_unreadable_file_is_one_problem_and_no_record_is_reported_lost(
    name: str, data: Path, forbid: Callable[[Path], None], offline: Barnabas
) -> None:
    forbid(data / name)
    assert problems(offline, data) == [f"{data / name}: {UNREADABLE} (not checked)"]
    dumped = offline("log", "dump", data / name)
    assert (dumped.code, dumped.err) == (1, f"barnabas: {data / name}: {UNREADABLE}\n")


# Stats


def counted(barnabas: Barnabas, *arguments: object) -> dict[str, Any]:
    ended = barnabas("log", "stats", *arguments, "--json")
    assert (ended.code, ended.err) == (0, "")
    found: dict[str, Any] = json.loads(ended.out)
    return found


def test_stats_count_what_kafkas_dump_shows(offline: Barnabas) -> None:
    expected = json.loads((GOLDEN / "clean.json").read_text())["files"]
    found = counted(offline, GOLDEN / "clean")
    for partition in found["partitions"]:
        files = [
            [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
            for name, rows in expected.items()
            if name.startswith(f"{partition['partition']}/") and name.endswith(".log")
        ]
        batches = [batch for file in files for batch in file]
        assert partition["segments"] == len(files)
        assert partition["batches"] == len(batches)
        assert partition["records"] == sum(batch["count"] for batch in batches)
        assert partition["bytes"] == sum(batch["size"] for batch in batches)
        producers = {batch["producerId"] for batch in batches} - {-1}
        assert partition["producers"] == len(producers)
        codecs = [batch["compresscodec"] for batch in batches]
        assert partition["batches_by_codec"] == {name: codecs.count(name) for name in codecs}
    assert found["total"]["bytes"] == sum(each["bytes"] for each in found["partitions"])
    assert found["total"]["keys"] is None


def test_deep_stats_read_the_batches(offline: Barnabas) -> None:
    by_name = {
        each["partition"]: each
        for each in counted(offline, GOLDEN / "clean", "--deep")["partitions"]
    }
    assert by_name["compacted-0"]["tombstones"] == 2
    assert by_name["segments-0"]["keys"] == 120
    assert by_name["segments-0"]["compression_ratio"] is None
    assert by_name["recompressed-zstd-0"]["compression_ratio"] > 50
    assert by_name["append-time-0"]["first_timestamp"] > by_name["segments-0"]["last_timestamp"]


def test_stats_are_a_table_with_a_total(offline: Barnabas) -> None:
    heading, *rows = offline("log", "stats", GOLDEN / "clean" / "segments-0", "--deep").lines
    assert heading.split()[:3] == ["PARTITION", "SEGMENTS", "RECORDS"]
    assert [row.split()[:3] for row in rows] == [
        ["segments-0", "6", "120"],
        ["total", "6", "120"],
    ]


def test_stats_skip_unreadable_batches(data: Path, offline: Barnabas) -> None:
    path = data / f"{ACTIVE}.log"
    damage(path, cut(5))
    found = counted(offline, path)["total"]
    assert (found["segments"], found["batches"]) == (1, 14)
