"""Starting with many partitions, cleanly and after a kill, and creating many at once."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from barnabas.base.errors import ErrorCode
from barnabas.base.offload import InlineOffload
from barnabas.disk.disk import RealDisk
from barnabas.wire.apis import ApiKey
from barnabas.znodes import layout, paths
from barnabas.znodes.embedded.embedded_tree import Tree
from tests.server.admin.client import LATEST, Client, parts
from tests.server.admin.running import broker

PARTITIONS = 100
MANY = 1_000  # some sixty turns of the loop
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


def test_acknowledged_records_survive_a_kill(tmp_path: Path) -> None:
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
        wanted = parts(name="many", num_partitions=MANY, replication_factor=1)
        creating.send(ApiKey.CREATE_TOPICS, 7, topics=(wanted,))
        served_meanwhile = 0
        while len(running.running.broker.logs) < MANY:
            assert client.produce("t").error_code == ErrorCode.none
            served_meanwhile += 1
        assert served_meanwhile > 10
        assert creating.receive(ApiKey.CREATE_TOPICS, 7).topics[0].error_code == ErrorCode.none


def test_a_topic_without_an_id_gets_one_for_good_and_keeps_its_records(tmp_path: Path) -> None:
    with broker(tmp_path) as running, running.client() as client:
        stored = client.create("t")
        client.produce("t", [b"x"] * 3)
    asyncio.run(forget_id(tmp_path, "t"))
    (tmp_path / "t-0" / "partition.metadata").unlink()
    ids = []
    for _ in range(2):
        with broker(tmp_path) as running, running.client() as client:
            (topic,) = client.call(ApiKey.METADATA, topics=None).topics
            ids.append(topic.topic_id)
            assert client.offset("t", LATEST) == 3
    assert ids[0] == ids[1] != stored


async def forget_id(folder: Path, topic: str) -> None:
    tree = Tree.open(RealDisk(str(folder)), InlineOffload())
    session = tree.session()
    path = paths.topic_path(topic)
    known = layout.decode_topic(topic, (await session.get(path))[0])
    await session.set(path, layout.encode_topic(replace(known, topic_id=None)))
    await session.close()
    await tree.close()
