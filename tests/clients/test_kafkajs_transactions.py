"""The transactional producer of kafkajs, unmodified; skipped where it cannot be installed."""

import os
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, TopicPartition

from barnabas.bench.compare.client_driver import Unavailable
from barnabas.bench.compare.driver_js import kafkajs
from tests.support.broker import BrokerProcess
from tests.support.clients import Admin
from tests.support.transforming import PARTITIONS, fill, read_committed

PROGRAM: Final = Path(__file__).parent / "kafkajs_transactions.js"
WITHIN_S: Final = 120.0

pytestmark = pytest.mark.long


def test_offsets_and_records_are_committed_together_and_a_zombie_is_fenced(
    broker: BrokerProcess, topic: str, some_admin: Admin
) -> None:
    driver = kafkajs()
    if isinstance(driver, Unavailable):
        pytest.skip(str(driver))
    node, main = driver.command
    count, target = 40, f"{topic}-out"
    for each in (topic, target):
        some_admin.create_topic(each, PARTITIONS)
    fill(broker.bootstrap, topic, count)
    ended = subprocess.run(
        [node, str(PROGRAM), broker.bootstrap, topic, target, f"{topic}-group", str(count)],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        env={**os.environ, "NODE_PATH": str(Path(main).parent / "node_modules")},
    )
    assert ended.stdout == "done\n", ended.stdout + ended.stderr
    assert read_committed(broker.bootstrap, target) == list(range(count))
    reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": f"{topic}-group"})
    with closing(reader):
        at = [TopicPartition(topic, n) for n in range(PARTITIONS)]
        assert [each.offset for each in reader.committed(at, 30)] == [count // PARTITIONS] * 2
