"""Starting with many partitions, cleanly and after a kill, and creating many at once."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import ApiKey
from tests.server.admin.client import LATEST, Client, parts
from tests.server.admin.running import broker

PARTITIONS = 100
# Generous, as tests run beside others: it takes about a millisecond a partition.
LIMIT_S = 15


def test_many_partitions_are_there_soon_after_a_clean_stop(tmp_path: Path) -> None:
    with broker(tmp_path) as running, running.client() as client:
        client.create("t", PARTITIONS)
        client.produce("t", [b"x"] * 3, PARTITIONS - 1)
    began = time.monotonic()
    with broker(tmp_path) as running, running.client() as client:
        assert client.offset("t", LATEST, PARTITIONS - 1) == 3
        assert time.monotonic() - began < LIMIT_S


def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    command = "from barnabas.cli.main import main; main()"
    options = ["--listen", "127.0.0.1:0", "--data", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, "-c", command, "server", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    with process, process.stdout:
        try:
            port = int(process.stdout.readline().rpartition(":")[2])
            with Client("127.0.0.1", port) as client:
                topic_id = client.create("t", 50, retention_ms="-1")
                for partition in range(50):
                    client.produce("t", [b"x"] * (partition + 1), partition)
        finally:
            os.kill(process.pid, signal.SIGKILL)
    began = time.monotonic()
    with broker(tmp_path) as running, running.client() as client:
        (topic,) = client.call(ApiKey.METADATA, topics=None).topics
        assert topic.topic_id == topic_id
        assert [client.offset("t", LATEST, p) for p in range(50)] == list(range(1, 51))
        assert time.monotonic() - began < LIMIT_S


def test_others_are_served_while_many_partitions_are_created(tmp_path: Path) -> None:
    with (
        broker(tmp_path) as running,
        running.client() as creating,
        running.client() as client,
    ):
        client.create("t")
        wanted = parts(name="many", num_partitions=PARTITIONS, replication_factor=1)
        creating.send(ApiKey.CREATE_TOPICS, 7, topics=(wanted,))
        served_meanwhile = 0
        while len(running.running.broker.logs) < PARTITIONS:
            assert client.produce("t").error_code == ErrorCode.none
            served_meanwhile += 1
        assert served_meanwhile > 10
        assert creating.receive(ApiKey.CREATE_TOPICS, 7).topics[0].error_code == ErrorCode.none
