"""Batches that a disk has damaged: the others are read, and these are named."""

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from starlette.applications import Starlette

from barnabas.console.console_options import ConsoleOptions
from barnabas.console.console_state import ConsoleState
from barnabas.wire.records.batch import headers
from tests.console.test_streams import places, read
from tests.console.test_web import Answer, ask, served
from tests.support.broker import BrokerProcess
from tests.support.confluent_client import admin

TOPIC = "damaged"
EACH = 10


def produce_batches(broker: BrokerProcess, partition: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 1000})
    for batch in range(3):
        for number in range(EACH):
            producer.produce(TOPIC, f"value {batch * EACH + number}", partition=partition)
        producer.flush(30)


def damage(data: Path, partition: int, batch: int, at: int, byte: int) -> None:
    """Set a byte of a batch on disk."""
    path = data / f"{TOPIC}-{partition}" / f"{0:020}.log"
    log = bytearray(path.read_bytes())
    positions = [position for position, _ in headers(log)]
    log[positions[batch] + at] = byte
    path.write_bytes(log)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Three batches a partition: of 0 the second is wrong, of 1 its size; those of 2 are whole."""
    broker = BrokerProcess(tmp_path_factory.mktemp("damaged"))
    with broker.running():
        client = admin.AdminClient({"bootstrap.servers": broker.bootstrap})
        client.create_topics([admin.NewTopic(TOPIC, 3, 1)])[TOPIC].result(30)
        for partition in range(3):
            produce_batches(broker, partition)
        damage(broker.data, 0, batch=1, at=80, byte=0xFF)
        damage(broker.data, 1, batch=1, at=11, byte=1)
        yield broker


def offsets(first: int, last: int, partition: int) -> set[tuple[int, int]]:
    return {(partition, offset) for offset in range(first, last)}


READABLE = offsets(0, 10, 0) | offsets(20, 30, 0) | offsets(0, 10, 1) | offsets(0, 30, 2)


@pytest.mark.parametrize("where", ["oldest", "newest"])
def test_batches_that_cannot_be_read_are_passed_over_and_named(
    damaged: BrokerProcess, where: str
) -> None:
    answer = read(damaged, TOPIC, f"where={where}&limit=200")
    assert set(places(answer)) == READABLE
    assert "Offsets 10 to 19 of partition 0 cannot be read, and are left out." in answer.text
    assert "Partition 1 cannot be read from offset 10 on." in answer.text
    assert "event: done\ndata: 60 shown" in answer.text


def test_the_person_can_continue_after_a_batch_that_cannot_be_read(damaged: BrokerProcess) -> None:
    answer = read(damaged, TOPIC, "where=offset&value=12&partition=0")
    link = re.search(r'href="([^"]*)">Continue after it', answer.text)
    assert link is not None
    rest = html.unescape(link[1]).partition("?")[2]
    assert set(places(read(damaged, TOPIC, rest))) == offsets(20, 30, 0)
    answer = read(damaged, TOPIC, "where=offset&value=12&partition=1")
    assert "Partition 1 cannot be read from offset 12 on.</strong> The leader says so." in (
        answer.text
    )


def test_a_download_says_what_it_lacks(damaged: BrokerProcess) -> None:
    answer = read(damaged, TOPIC, "where=oldest&limit=200", "download")
    lines = list(map(json.loads, answer.text.splitlines()))
    lacks = [line["unreadable"] for line in lines if "unreadable" in line]
    assert [(each["partition"], each["offset"], each["next_offset"]) for each in lacks] == [
        (0, 10, 20),
        (1, 10, None),
    ]
    assert len(lines) == len(READABLE) + len(lacks)


def test_the_log_page_marks_a_batch_whose_crc_is_wrong(damaged: BrokerProcess) -> None:
    whole, wrong, cut = (
        read_page(damaged, f"/log?topic={TOPIC}&partition={number}") for number in (2, 0, 1)
    )
    assert "CRC is wrong" not in whole
    assert wrong.count("CRC is wrong") == 1
    assert "The log cannot be read any further here" in cut


def read_page(broker: BrokerProcess, path: str) -> str:
    found: list[Answer] = []

    async def work(app: Starlette, _: ConsoleState) -> None:
        found.append(await ask(app, "GET", path))

    served(ConsoleOptions(broker.bootstrap), work)
    return found[0].text
