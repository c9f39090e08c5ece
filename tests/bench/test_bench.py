"""The bench's messages are Kafka's, and a wrong response fails the run."""

import json
import struct
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import crc32c
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.fetch.v12 import FetchRequest, FetchResponse
from kio.schema.produce.v9 import ProduceRequest, ProduceResponse
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.serial import entity_reader

from barnabas.bench.bench_command import NAMES, chosen, measure
from barnabas.bench.bench_plan import SMOKE, Bench
from barnabas.bench.bench_report import ratio_row
from barnabas.bench.limits.load_generator import (
    ConnectionLoad,
    LoadFailed,
    drive,
    ideal_server,
    write_log,
)
from barnabas.bench.limits.load_messages import BATCH_OVERHEAD, TOPIC, batch_of, fetch, produce
from barnabas.bench.limits.native_build import NoCompiler, program
from barnabas.bench.sections import SECTIONS
from barnabas.bench.server_processes import ServerFailed, running

LOAD = ConnectionLoad(connections=3, window=4, requests=100, seconds=10.0)


@pytest.fixture(scope="module")
def compiled() -> None:
    try:
        program("ideal")
        program("load")
    except NoCompiler as missing:
        pytest.skip(f"the C ideal cannot be built here: {missing}")


needs_compiler = pytest.mark.usefixtures("compiled")


def read(entity: Any, frame: bytes, position: int) -> tuple[Any, int]:
    value, size = entity_reader(entity)(frame, position)
    return value, position + size


@given(st.integers(200, 20_000))
def test_a_batch_has_the_exact_size_and_a_correct_crc(size: int) -> None:
    batch = batch_of(size)
    assert len(batch.content) == size
    assert struct.unpack_from(">i", batch.content, 8)[0] == size - 12
    assert struct.unpack_from(">I", batch.content, 17)[0] == crc32c.crc32c(batch.content[21:])
    assert struct.unpack_from(">i", batch.content, BATCH_OVERHEAD - 4)[0] == batch.records


def test_the_produce_exchange_reads_as_kafkas() -> None:
    batch = batch_of(1024)
    exchange = produce(batch)
    request = exchange.request_for(2)
    header, body_at = read(RequestHeader, request, 4)
    body, end = read(ProduceRequest, request, body_at)
    assert (header.request_api_key, header.request_api_version, end) == (0, 9, len(request))
    partition = body.topic_data[0].partition_data[0]
    assert (body.acks, body.topic_data[0].name, partition.index) == (1, TOPIC, 2)
    assert bytes(partition.records) == batch.content
    assert request[exchange.records_at :].startswith(batch.content)

    reply = bytearray(exchange.reply)
    struct.pack_into(">hq", reply, exchange.error_at, 3, 77)
    _, body_at = read(ResponseHeader, bytes(reply), 4)
    answer, end = read(ProduceResponse, bytes(reply), body_at)
    answered = answer.responses[0].partition_responses[0]
    assert (answered.error_code, answered.base_offset, end) == (3, 77, len(reply))


def test_the_fetch_exchange_reads_as_kafkas() -> None:
    batch = batch_of(16 * 1024)
    exchange = fetch(batch)
    request = bytearray(exchange.request_for(0))
    struct.pack_into(">q", request, exchange.ask_at, 77)
    header, body_at = read(RequestHeader, bytes(request), 4)
    body, end = read(FetchRequest, bytes(request), body_at)
    assert (header.request_api_key, header.request_api_version, end) == (1, 12, len(request))
    partition = body.topics[0].partitions[0]
    assert (partition.fetch_offset, partition.partition_max_bytes) == (77, 16 * 1024)

    at = exchange.records_at
    reply = exchange.reply[:at] + batch.at(77) + exchange.reply[at:]
    _, body_at = read(ResponseHeader, reply, 4)
    answer, end = read(FetchResponse, reply, body_at)
    assert end == len(reply) == 4 + struct.unpack_from(">i", reply)[0]
    assert bytes(answer.responses[0].partitions[0].records) == batch.at(77)
    assert struct.unpack_from(">q", reply, exchange.offset_at)[0] == 77


@needs_compiler
@pytest.mark.parametrize("size", [209, 128 * 1024, 1_000_000])
def test_the_ideal_writes_every_batch_that_the_generator_produced(
    size: int, tmp_path: Path
) -> None:
    batch = batch_of(size)
    with ideal_server(produce(batch), tmp_path, tmp_path / "log") as server:
        result = drive(server, produce(batch), LOAD, tmp_path)
    assert result.requests == LOAD.requests
    assert result.seconds > 0
    assert 0 < result.p50_us <= result.p99_us <= result.max_us
    assert (tmp_path / "log").read_bytes() == batch.content * LOAD.requests


@needs_compiler
@pytest.mark.parametrize("size", [16 * 1024, 1_000_000])
def test_the_ideal_answers_fetches_with_the_batches_asked_for(size: int, tmp_path: Path) -> None:
    batch = batch_of(size)
    write_log(tmp_path / "log", batch, 7)
    with ideal_server(fetch(batch), tmp_path, tmp_path / "log") as server:
        result = drive(server, fetch(batch), LOAD, tmp_path, batches=7)
    assert result.requests == LOAD.requests


@needs_compiler
def test_a_run_ends_with_its_time_and_every_request_answered(tmp_path: Path) -> None:
    exchange = produce(batch_of(1024))
    with ideal_server(exchange, tmp_path, tmp_path / "log") as server:
        result = drive(server, exchange, replace(LOAD, requests=10_000_000, seconds=0.05), tmp_path)
    assert 0 < result.requests < 10_000_000
    assert (tmp_path / "log").stat().st_size == 1024 * result.requests


@needs_compiler
def test_an_error_code_in_a_reply_fails_the_run(tmp_path: Path) -> None:
    exchange = produce(batch_of(1024))
    reply = bytearray(exchange.reply)
    struct.pack_into(">h", reply, exchange.error_at, 6)
    refusing = replace(exchange, reply=bytes(reply))
    with (
        ideal_server(refusing, tmp_path, tmp_path / "log") as server,
        pytest.raises(LoadFailed, match="error code 6"),
    ):
        drive(server, exchange, LOAD, tmp_path)


@needs_compiler
def test_base_offsets_that_do_not_increase_fail_the_run(tmp_path: Path) -> None:
    exchange = produce(batch_of(1024))
    with (
        ideal_server(replace(exchange, step=0), tmp_path, tmp_path / "log") as server,
        pytest.raises(LoadFailed, match="base offset 0 after 0"),
    ):
        drive(server, exchange, LOAD, tmp_path)


@needs_compiler
def test_a_fetch_of_another_batch_than_asked_for_fails_the_run(tmp_path: Path) -> None:
    batch = batch_of(16 * 1024)
    (tmp_path / "log").write_bytes(batch.at(0) + batch.at(0))
    with (
        ideal_server(fetch(batch), tmp_path, tmp_path / "log") as server,
        pytest.raises(LoadFailed, match=f"asked for offset {batch.records}, got 0"),
    ):
        drive(server, fetch(batch), replace(LOAD, connections=1), tmp_path, batches=2)


@needs_compiler
def test_a_server_that_closes_the_connection_fails_the_run(tmp_path: Path) -> None:
    exchange = produce(batch_of(1024))
    with ideal_server(exchange, tmp_path, tmp_path / "log") as server:
        pass
    with pytest.raises(LoadFailed, match="cannot connect"):
        drive(server, exchange, LOAD, tmp_path)


def test_a_server_that_does_not_start_is_reported_with_its_log(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit('no such option')"]
    with (
        pytest.raises(ServerFailed, match="no `ready` line") as failed,
        running(command, tmp_path / "server.log"),
    ):
        pass
    assert "no such option" in failed.value.__notes__[0]


def test_a_server_that_is_not_installed_is_reported_in_one_line(tmp_path: Path) -> None:
    with (
        pytest.raises(ServerFailed, match="/nowhere/barnabas not found"),
        running(["/nowhere/barnabas"], tmp_path / "server.log"),
    ):
        pass


def test_sections_are_in_report_order_and_unknown_ones_are_rejected() -> None:
    assert chosen("fetch, raw") == ["raw", "fetch"]
    assert chosen("") == list(NAMES) == list(SECTIONS)
    with pytest.raises(typer.BadParameter, match="unknown section 'fast'"):
        chosen("fast")


def test_a_goal_is_met_at_its_ratio_or_above() -> None:
    assert ratio_row("a", "", "", 0.25, goal=0.25).met is True
    assert ratio_row("a", "", "", 0.24, goal=0.25).met is False
    assert ratio_row("a", "", "", 0.24).met is None


def test_the_command_writes_its_figures_as_json_and_leaves_nothing_behind(tmp_path: Path) -> None:
    figures, data = tmp_path / "figures.json", tmp_path / "data"
    data.mkdir()
    measure("raw", None, True, figures, data)
    written = json.loads(figures.read_text())
    assert written["machine"]["cores"] >= 1
    [section] = written["sections"]
    assert section["key"] == "raw"
    assert all(number > 0 for row in section["rows"] for number in row["numbers"].values())
    assert list(data.iterdir()) == []


def test_a_scratch_directory_is_removed_after_its_block(tmp_path: Path) -> None:
    with Bench(SMOKE, tmp_path, print).scratch() as folder:
        (folder / "data").write_bytes(b"x")
    assert list(tmp_path.iterdir()) == []
