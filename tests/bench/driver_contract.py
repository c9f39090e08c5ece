"""The contract of client drivers against a broker, run by each client's test file."""

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, TopicPartition
from confluent_kafka.admin import AdminClient

from barnabas.bench.clusters.bench_topics import client_settings, create_topic
from barnabas.bench.compare.client_driver import ClientFailed, Driver, Unavailable, answer, run
from barnabas.bench.server_processes import Server, broker
from tests.support.waiting import until

PATIENCE_S = 60.0
PARTITIONS = 3
MESSAGES = 3_000
MESSAGE_BYTES = 100
WHOLE = {"messages": MESSAGES, "bytes": MESSAGES * MESSAGE_BYTES}
SKEWED = [MESSAGES * 9 // 10, MESSAGES // 20, MESSAGES // 20]


def available(driver: Driver | Unavailable) -> Driver:
    """Skips the test where this client cannot be had."""
    if isinstance(driver, Unavailable):
        pytest.skip(str(driver))
    return driver


class Tools:
    """A machine that has only those tools that a test gives it, and a cache of its own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log = folder / "log"
        self._path = folder / "bin"
        self._path.mkdir()
        self._cache = folder / "cache"
        monkeypatch.setenv("PATH", str(self._path))
        monkeypatch.setenv("XDG_CACHE_HOME", str(self._cache))

    def add(self, name: str, script: str) -> None:
        tool = self._path / name
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)

    def kept(self) -> list[Path]:
        """The programs that were built and are in the cache."""
        return list((self._cache / "barnabas").iterdir())


def produce(driver: Driver, server: Server, topic: str, **spec: object) -> dict[str, Any]:
    common = {"role": "produce", "bootstrap": server.bootstrap, "topic": topic}
    sizes = {"partitions": PARTITIONS, "messages": MESSAGES, "message_bytes": MESSAGE_BYTES}
    return run(driver, {**common, **sizes, **spec})


def consuming(server: Server, topic: str, **spec: object) -> dict[str, object]:
    common = {"role": "consume", "bootstrap": server.bootstrap, "topic": topic, "group": topic}
    return {**common, "messages": MESSAGES, "protocol": "classic", "shared": False, **spec}


def end_offsets(server: Server, topic: str) -> list[int]:
    consumer = Consumer(client_settings(server.bootstrap, **{"group.id": "unused"}))
    try:
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        return [consumer.get_watermark_offsets(each, timeout=PATIENCE_S)[1] for each in partitions]
    finally:
        consumer.close()


def each_member_has_a_partition(admin: AdminClient, group: str) -> bool:
    found = admin.describe_consumer_groups([group])[group].result(PATIENCE_S)
    shares = [len(member.assignment.topic_partitions) for member in found.members]
    return found.state == ConsumerGroupState.STABLE and shares == [1] * PARTITIONS


class Member:
    """A member of a group, as a process that reads until its stdin is closed."""

    def __init__(self, driver: Driver, spec: dict[str, object]) -> None:
        self.lines: list[str] = []
        self._driver = driver
        self._process = subprocess.Popen(
            [*driver.command, json.dumps({**spec, "shared": True})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._reader.join()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()

    @property
    def messages(self) -> int:
        """How many it read, by its last line of progress."""
        return int(json.loads(self.lines[-1])[1]) if self.lines else 0

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def ended(self) -> dict[str, Any]:
        """Its answer, once its stdin is closed."""
        self.stop()
        assert self._process.stderr is not None
        stderr = self._process.stderr.read()
        self._reader.join(PATIENCE_S)
        code = self._process.wait(PATIENCE_S)
        return answer(self._driver, code, "\n".join(self.lines), stderr)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line)


def read_by_members(driver: Driver, server: Server, protocol: str) -> list[int]:
    """Messages that each member of a group read, the fewest first; each has one partition."""
    topic = f"shared-{protocol}"
    create_topic(server.bootstrap, topic, PARTITIONS)
    admin = AdminClient(client_settings(server.bootstrap))
    with ExitStack() as stack:
        spec = consuming(server, topic, protocol=protocol)
        members = [stack.enter_context(Member(driver, spec)) for _ in range(PARTITIONS)]
        until(lambda: each_member_has_a_partition(admin, topic))
        produce(driver, server, topic, skew=True)
        until(lambda: sum(member.messages for member in members) >= MESSAGES)
        for member in members:
            member.stop()
        return sorted(member.ended()["messages"] for member in members)


class DriverContract:
    """The file of a client has a fixture `driver` beside its subclass."""

    @pytest.fixture(scope="class")
    @classmethod
    def server(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
        # Long enough for the members of a test to join at once, which spares it a rebalance.
        overrides = (
            "group.initial.rebalance.delay.ms=500",
            "group.consumer.heartbeat.interval.ms=200",
            "group.consumer.min.heartbeat.interval.ms=100",
        )
        with broker(tmp_path_factory.mktemp("driver"), *overrides) as running:
            yield running

    def test_produce_ends_once_all_messages_are_in_the_log(
        self, driver: Driver, server: Server
    ) -> None:
        create_topic(server.bootstrap, "produced", PARTITIONS)
        assert produce(driver, server, "produced")["seconds"] > 0
        assert sum(end_offsets(server, "produced")) == MESSAGES

    def test_skew_sends_nine_of_ten_messages_to_the_first_partition(
        self, driver: Driver, server: Server
    ) -> None:
        create_topic(server.bootstrap, "skewed", PARTITIONS)
        produce(driver, server, "skewed", skew=True)
        assert end_offsets(server, "skewed") == SKEWED

    def test_consume_counts_messages_and_bytes_by_each_protocol_of_the_client(
        self, driver: Driver, server: Server
    ) -> None:
        create_topic(server.bootstrap, "consumed", PARTITIONS)
        produce(driver, server, "consumed")
        for protocol in sorted(driver.protocols):
            group = f"by-{protocol}"
            found = run(driver, consuming(server, "consumed", group=group, protocol=protocol))
            assert found.items() >= WHOLE.items()
            assert 0 < found["first_s"] <= found["seconds"]

    def test_a_shared_consumer_prints_its_progress_until_its_stdin_is_closed(
        self, driver: Driver, server: Server
    ) -> None:
        create_topic(server.bootstrap, "progress", PARTITIONS)
        produce(driver, server, "progress")
        with Member(driver, consuming(server, "progress", messages=1)) as member:
            until(lambda: member.messages >= MESSAGES)
            assert member.ended() == WHOLE
            progress = [json.loads(line) for line in member.lines[:-1]]
        assert progress == sorted(progress)
        assert abs(progress[-1][0] - time.time()) < PATIENCE_S

    def test_members_of_a_group_read_every_message_once(
        self, driver: Driver, server: Server
    ) -> None:
        for protocol in sorted(driver.protocols):
            assert read_by_members(driver, server, protocol) == sorted(SKEWED)

    def test_latency_is_measured_end_to_end(self, driver: Driver, server: Server) -> None:
        create_topic(server.bootstrap, "latency", 1)
        common = {"role": "latency", "bootstrap": server.bootstrap, "topic": "latency"}
        found = run(driver, {**common, "rate": 100, "seconds": 0.5})
        assert found["messages"] == 50
        assert 0 < found["p50_ms"] <= found["p99_ms"] < 1000 * PATIENCE_S

    def test_an_unsupported_role_is_reported_in_one_line(self, driver: Driver) -> None:
        with pytest.raises(ClientFailed, match=r'unknown role "unheard"$'):
            run(driver, {"role": "unheard", "bootstrap": "127.0.0.1:1"})
