"""The metrics that Prometheus reads from a broker, and the errors of malformed requests."""

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v9.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kio.schema.types import TopicName
from kio.static.primitive import i32, i64
from prometheus_client.parser import text_string_to_metric_families

from barnabas.base.errors import ConfigError
from barnabas.server.metrics import metrics_listener
from barnabas.server.metrics.metric_table import METRICS
from barnabas.server.metrics.metrics_listener import Address, MetricsListener, parse_address
from barnabas.server.metrics.request_statistics import (
    BOUNDS_S,
    TIMED_ONE_IN,
    RequestStatistics,
    Times,
    error_codes,
)
from barnabas.server.network.connection_state import ConnectionState
from barnabas.wire.apis import ApiKey
from barnabas.wire.schema import NO_THROTTLE
from tests.server.raw import (
    Insight,
    api_versions,
    batch,
    broker,
    fetch,
    frame,
    on_uvloop,
    produce,
    until,
    with_broker,
)

SERVED = {"barnabas_metrics_listener": "127.0.0.1:0"}
GET = b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n"

# By name and label values.
Told = Mapping[tuple[str, ...], float]


async def exchange(address: Address, sent: bytes) -> bytes:
    """All that is answered until the broker closes the connection."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(sent)
        async with asyncio.timeout(20):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


async def scrape(insight: Insight) -> Told:
    assert insight.running.metrics is not None
    answer = await exchange(insight.running.metrics, GET)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


# -- metrics ----------------------------------------------------------------


def test_exactly_the_metrics_of_the_table_are_exported_with_their_meanings(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        assert insight.running.metrics is not None
        answer = await exchange(insight.running.metrics, GET)
        body = answer.partition(b"\r\n\r\n")[2].decode()
        found = dict(re.findall(r"^# HELP (barnabas_\w+) (.+)$", body, re.MULTILINE))
        kinds = dict(re.findall(r"^# TYPE (barnabas_\w+) (\w+)$", body, re.MULTILINE))
        assert found == {name: metric.meaning for name, metric in METRICS.items()}
        assert kinds == {name: metric.kind for name, metric in METRICS.items()}
        assert "process_resident_memory_bytes" in body

    with_broker(tmp_path, scenario, **SERVED)


def test_a_broker_that_is_alone_leads_everything_and_is_its_own_controller(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", partitions=3)
        told = await scrape(insight)
        expected = {
            "leader_count": 3,
            "partition_count": 3,
            "at_min_isr_partitions": 3,
            "under_replicated_partitions": 0,
            "under_min_isr_partitions": 0,
            "offline_partitions": 0,
            "active_controller": 1,
            "controller_epoch": 1,
            "controller_brokers": 1,
            "controller_partitions": 3,
            "unclean_leader_elections_total": 0,
            "log_segments": 3,
            "brokers": 1,
            "topics": 1,
            "connections": 0,
        }
        assert {name: told[f"barnabas_{name}",] for name in expected} == expected

    with_broker(tmp_path, scenario, **SERVED)


def test_requests_are_counted_whichever_way_they_are_served(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        client = await insight.connect()
        await client.ask(api_versions())
        sent = [produce(("orders", 0, batch(b"x" * n))) for n in range(50)]
        for each in sent:
            await client.ask(each)
        for offset in range(40):
            await client.ask(fetch(("orders", 0, offset)))
        told = await scrape(insight)
        assert told["barnabas_requests_total", "ApiVersions"] == 1
        assert told["barnabas_requests_total", "Produce"] == 50
        assert told["barnabas_requests_total", "Fetch"] == 40
        assert told["barnabas_messages_in_total",] == 50
        assert told["barnabas_received_bytes_total",] > sum(map(len, sent))
        assert told["barnabas_sent_bytes_total",] > 0
        # Shortcuts are timed now and then, and each time stands for several requests.
        timed = told["barnabas_request_seconds_count", "Produce", "local"]
        assert abs(timed - 50) <= 2 * TIMED_ONE_IN
        assert told["barnabas_request_seconds_sum", "Produce", "local"] > 0

    with_broker(tmp_path, scenario, **SERVED)


def test_errors_are_counted_by_api_and_code(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        client = await insight.connect()
        await client.ask(produce(("nowhere", 0, batch()), ("nowhere", 1, batch())))
        await client.ask(fetch(("orders", 0, 99)))
        await client.ask(fetch(("orders", 0, 0), session_id=7, session_epoch=3))
        told = await scrape(insight)
        errors = {name[1:]: count for name, count in told.items() if "_errors_" in name[0]}
        assert errors == {
            ("Produce", "UNKNOWN_TOPIC_OR_PARTITION"): 2,
            ("Fetch", "OFFSET_OUT_OF_RANGE"): 1,
            ("Fetch", "FETCH_SESSION_ID_NOT_FOUND"): 1,
        }

    with_broker(tmp_path, scenario, **SERVED)


def test_what_cannot_be_served_is_counted_as_refused(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        client = await insight.connect()
        await client.send(frame(9999, 0, b""))
        assert await client.is_closed()
        assert (await scrape(insight))["barnabas_requests_refused_total",] == 1

    with_broker(tmp_path, scenario, **SERVED)


def test_a_fetch_that_waits_is_in_the_purgatory_and_then_among_the_remote_times(
    tmp_path: Path,
) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        waiting, other = await insight.connect(), await insight.connect()
        await waiting.send(fetch(("orders", 0, 0), max_wait_ms=60_000))
        await until(lambda: insight.delayed.consumers.delayed)
        told = await scrape(insight)
        assert told["barnabas_purgatory_size", "consumer_fetch"] == 1
        assert told["barnabas_purgatory_watched", "consumer_fetch"] == 1
        assert told["barnabas_connections",] == 2
        assert ("barnabas_request_seconds_count", "Fetch", "remote") not in told
        await other.ask(produce(("orders", 0, batch())))
        await waiting.receive()
        told = await scrape(insight)
        assert told["barnabas_purgatory_size", "consumer_fetch"] == 0
        assert told["barnabas_request_seconds_count", "Fetch", "remote"] == 1

    with_broker(tmp_path, scenario, **SERVED)


def test_a_client_that_does_not_read_is_seen_in_the_send_times(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        await (await insight.connect()).ask(produce(("orders", 0, batch(bytes(900_000)))))
        deaf = await insight.connect(limit=1024)
        deaf.stop_reading()
        deaf.writer.write(b"".join(fetch(("orders", 0, 0)) for _ in range(50)))
        await until(
            lambda: any(
                c._state is ConnectionState.BLOCKED for c in insight.connections._idle_watches
            )
        )
        deaf.read_again()
        for _ in range(50):
            await deaf.receive()
        assert (await scrape(insight))["barnabas_request_seconds_count", "Fetch", "send"] >= 1

    with_broker(tmp_path, scenario, **SERVED)


def test_without_the_property_nothing_is_served(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        assert insight.running.metrics is None

    with_broker(tmp_path, scenario)


# -- counting ----------------------------------------------------------------


def test_a_time_falls_into_the_first_bucket_whose_bound_is_above_it() -> None:
    for took_ns in (0, 1, 1023, 1024, 5_000, 10**6, 10**9, 68 * 10**9):
        times = Times()
        times.add(took_ns, weight=3)
        (bucket,) = [number for number, count in enumerate(times.buckets) if count]
        assert took_ns / 1e9 < BOUNDS_S[bucket]
        assert bucket == 0 or BOUNDS_S[bucket - 1] <= took_ns / 1e9
        assert (times.count, times.total_ns) == (3, 3 * took_ns)


def test_a_time_beyond_all_bounds_is_counted_in_the_last_bucket() -> None:
    times = Times()
    times.add(10**15)
    assert times.buckets[-1] == 1


def test_errors_are_found_however_deep_they_are() -> None:
    good = ListOffsetsPartitionResponse(
        partition_index=i32(0),
        error_code=ErrorCode.none,
        timestamp=i64(-1),
        offset=i64(-1),
        leader_epoch=i32(-1),
    )
    bad = replace(good, error_code=ErrorCode.not_leader_or_follower)
    topics = (
        ListOffsetsTopicResponse(name=TopicName("a"), partitions=(good, bad)),
        ListOffsetsTopicResponse(name=TopicName("b"), partitions=(bad, good)),
    )
    message = ListOffsetsResponse(throttle_time=NO_THROTTLE, topics=topics)
    assert list(error_codes(message)) == [6, 6]
    statistics = RequestStatistics()
    statistics.count_errors(ApiKey.LIST_OFFSETS, message)
    assert statistics.by_api[ApiKey.LIST_OFFSETS].errors == {6: 2}


# -- the HTTP port -----------------------------------------------------------


async def status(address: Address, sent: bytes) -> int:
    answer = await exchange(address, sent)
    found = re.match(rb"HTTP/1\.1 (\d{3}) ", answer)
    assert found is not None, answer
    assert b"\r\nConnection: close\r\n" in answer
    return int(found[1])


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (GET, 200),
        (b"GET / HTTP/1.0\r\n\r\n", 200),
        (b"GET /metrics?name[]=x HTTP/1.1\n\n", 200),
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", 200),
        (b"GET /other HTTP/1.1\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", 405),
        (b"GET /metrics\r\n\r\n", 400),
        (b"get /metrics HTTP/1.1\r\n\r\n", 400),
        (b"GET /metrics HTTP/2\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01", 400),
        (bytes(100), 400),
        (api_versions(), 400),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 20_000, 431),
    ],
)
def test_every_request_gets_one_answer_and_the_connection_is_closed(
    sent: bytes, expected: int
) -> None:
    async def scenario() -> None:
        listener = MetricsListener(lambda: b"one 1\n")
        address = await listener.open(Address("127.0.0.1", 0))
        try:
            assert await status(address, sent) == expected
            assert await status(address, GET) == 200
        finally:
            await listener.close()

    on_uvloop(scenario())


def test_a_head_request_gets_no_body_and_a_get_in_pieces_gets_it_whole() -> None:
    async def scenario() -> None:
        listener = MetricsListener(lambda: b"one 1\n")
        address = await listener.open(Address("127.0.0.1", 0))
        answer = await exchange(address, b"HEAD /metrics HTTP/1.1\r\n\r\n")
        assert answer.endswith(b"Content-Length: 6\r\nConnection: close\r\n\r\n")
        reader, writer = await asyncio.open_connection(*address)
        for start in range(len(GET)):
            writer.write(GET[start : start + 1])
            await asyncio.sleep(0)
        assert (await reader.read()).endswith(b"\r\n\r\none 1\n")
        writer.close()
        await listener.close()

    on_uvloop(scenario())


def test_the_slow_are_cut_off_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_listener, "DEADLINE_S", 0.05)

    async def scenario() -> None:
        listener = MetricsListener(lambda: bytes(50_000_000))
        address = await listener.open(Address("127.0.0.1", 0))
        assert await exchange(address, b"") == b""
        assert await exchange(address, b"GET /metrics HTTP/1.1\r\n") == b""
        _, writer = await asyncio.open_connection(*address, limit=1024)
        writer.write(GET)
        await until(lambda: listener._scrapes)
        await until(lambda: not listener._scrapes)
        writer.transport.abort()
        await listener.close()

    on_uvloop(scenario())


def test_there_are_places_for_so_many_and_those_that_leave_make_room() -> None:
    async def scenario() -> None:
        listener = MetricsListener(lambda: b"one 1\n")
        address = await listener.open(Address("127.0.0.1", 0))
        idle = [
            await asyncio.open_connection(*address)
            for _ in range(metrics_listener.MOST_CONNECTIONS)
        ]
        await until(lambda: len(listener._scrapes) == metrics_listener.MOST_CONNECTIONS)
        assert await exchange(address, GET) == b""
        idle[0][1].transport.abort()
        await until(lambda: len(listener._scrapes) < metrics_listener.MOST_CONNECTIONS)
        assert await status(address, GET) == 200
        # Connections that are still open when the broker stops are closed.
        await listener.close()
        for reader, writer in idle:
            with suppress(ConnectionError):
                assert await reader.read() == b""
            writer.transport.abort()

    on_uvloop(scenario())


def test_a_port_in_use_keeps_the_broker_from_starting(tmp_path: Path) -> None:
    async def scenario() -> None:
        taken = MetricsListener(lambda: b"")
        address = await taken.open(Address("127.0.0.1", 0))
        with pytest.raises(ConfigError, match="cannot listen: address already in use"):
            async with broker(tmp_path, barnabas_metrics_listener=address):
                pass
        await taken.close()

    on_uvloop(scenario())


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9192", Address("127.0.0.1", 9192)),
        (":0", Address("", 0)),
        ("0.0.0.0:1", Address("", 1)),
        ("[::1]:9192", Address("::1", 9192)),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["9192", "host", "host:", "host:x", "host:70000", "http://h:1"])
def test_anything_else_is_no_address(text: str) -> None:
    with pytest.raises(ConfigError, match=r"barnabas\.metrics\.listener .*expected HOST:PORT"):
        parse_address(text)
