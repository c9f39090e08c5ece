"""The section on consumers of many partitions."""

import asyncio
import socket
import threading
import time
from pathlib import Path
from uuid import UUID

import pytest
import uvloop
from kio.schema.fetch.v17 import FetchRequest
from kio.schema.request_header.v2.header import RequestHeader
from kio.serial import entity_reader

from barnabas.bench.bench_plan import SMOKE, Bench
from barnabas.bench.clusters.busy_cores import Busy, watching
from barnabas.bench.clusters.probe import Probed, probe_broker, probing
from barnabas.bench.clusters.subscribed_bench import CONSUMERS, subscribed_section
from barnabas.bench.limits.load_messages import batch_of
from barnabas.bench.limits.session_consumer import SessionConsumer, last_offsets
from barnabas.bench.server_processes import HAS_PROC, broker
from barnabas.client.connection import AsyncConnection
from barnabas.client.fetch import NEWEST, write_fetch_request

TOPIC = UUID(int=7)


def test_every_consumer_is_measured_idle_and_with_messages(tmp_path: Path) -> None:
    section = subscribed_section(Bench(SMOKE, tmp_path, print))
    if HAS_PROC:
        assert len(section.rows) == 3 * len(CONSUMERS) * len(SMOKE.subscribed_partitions)
        assert all(number > 0 for row in section.rows for number in row.numbers.values())
    assert list(tmp_path.iterdir()) == []


def test_an_incremental_fetch_lists_only_moved_partitions() -> None:
    async def request_of(moved: list[tuple[UUID, int]]) -> bytes:
        peer = AsyncConnection("none", "bench", asyncio.get_running_loop())
        consumer = SessionConsumer(peer, {}, lambda *_: None)
        consumer._offsets = {(TOPIC, 0): 5, (TOPIC, 1): 6}
        consumer._session = (77, 3)
        return write_fetch_request(NEWEST, 9, "bench", consumer._request(moved))

    for moved, offsets in (([], []), ([(TOPIC, 1)], [6]), ([(TOPIC, 0), (TOPIC, 1)], [5, 6])):
        frame = uvloop.run(request_of(list(moved)))
        header, size = entity_reader(RequestHeader)(frame, 4)
        body, rest = entity_reader(FetchRequest)(frame, 4 + size)
        assert 4 + size + rest == len(frame)
        assert (header.request_api_key, header.request_api_version) == (1, 17)
        assert (body.session_id, body.session_epoch) == (77, 3)
        assert [part.fetch_offset for each in body.topics for part in each.partitions] == offsets
        assert not body.forgotten_topics_data


def test_every_batch_of_a_response_arrives_with_its_last_record() -> None:
    batch = batch_of(1024)
    both = batch.at(10) + batch.at(10 + batch.records)
    first = 10 + batch.records - 1
    assert list(last_offsets(memoryview(both))) == [first, first + batch.records]


def test_the_longest_busy_period_ends_with_a_free_core() -> None:
    busy = Busy()
    for used in (0.1, 0.95, 1.0, 0.5, 0.95):
        busy.on_look(used, 1.0)
    assert busy.cpu_s == pytest.approx(3.5)
    assert busy.longest_s == pytest.approx(2.0)


def test_a_probe_counts_responses_until_it_is_over(tmp_path: Path) -> None:
    with broker(tmp_path) as server, watching([server.pid]) as [busy]:
        found, over = Probed(), threading.Event()
        prober = threading.Thread(target=probe_broker, args=(server.port, found, over))
        prober.start()
        deadline = time.perf_counter() + 60
        while found.answers < 3 and time.perf_counter() < deadline:
            time.sleep(0.005)
        over.set()
        prober.join()
    assert found.answers >= 3
    assert 0 < found.longest_s < time.perf_counter() - found.listened_at
    assert busy.cpu_s > 0 or not HAS_PROC


def test_a_probe_without_a_broker_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with probing([port]) as probe:
        pass
    assert probe.found == [Probed()]
