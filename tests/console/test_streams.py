"""Streams and downloads of messages from a broker, without a browser."""

import asyncio
import json
import re
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from starlette.applications import Starlette

from barnabas.client.metadata import fields
from barnabas.console.cluster.console_client import Unreachable
from barnabas.console.console_options import ConsoleOptions
from barnabas.console.console_state import ConsoleState
from barnabas.wire.apis import ApiKey
from tests.console.test_web import Answer, ask, served
from tests.support.broker import BrokerProcess
from tests.support.confluent_client import admin

PARTITIONS = 10
LONG = "x" * 50_000


@pytest.fixture(scope="module")
def skewed(broker: BrokerProcess) -> Iterator[str]:
    """120 messages in one of ten partitions; then a binary one, a long one, one that is null."""
    name = "console-skewed"
    client = admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    client.create_topics([admin.NewTopic(name, PARTITIONS, 1)])[name].result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(120):
        producer.produce(name, f'{{"n": {number}}}', f"key-{number}", 3, timestamp=1_000 + number)
    producer.produce(name, b"\xff\x00", b"binary", 5, timestamp=1)
    producer.produce(name, f'{{"pad": "{LONG}", "last": 1}}', b"long", 5, timestamp=2)
    producer.produce(name, None, b"tombstone", 5, timestamp=3)
    producer.flush(30)
    yield name
    client.delete_topics([name])[name].result(30)


def read(broker: BrokerProcess, topic: str, query: str, kind: str = "stream") -> Answer:
    found: list[Answer] = []

    async def work(app: Starlette, _: ConsoleState) -> None:
        found.append(await ask(app, "GET", f"/topics/{topic}/messages/{kind}?{query}"))

    served(ConsoleOptions(broker.bootstrap), work)
    return found[0]


def places(answer: Answer) -> list[tuple[int, int]]:
    return [(int(p), int(o)) for p, o in re.findall(r'data-open="m-(\d+)-(\d+)"', answer.text)]


def test_the_newest_are_the_newest_of_all_partitions(broker: BrokerProcess, skewed: str) -> None:
    answer = read(broker, skewed, "where=newest&limit=50")
    assert places(answer) == [(3, number) for number in range(119, 69, -1)]
    assert "event: done\ndata: 50 shown" in answer.text


def test_the_newest_that_match_are_found(broker: BrokerProcess, skewed: str) -> None:
    query = "where=newest&limit=2&filter=expression&text=value.n+<+100"
    assert places(read(broker, skewed, query)) == [(3, 99), (3, 98)]


def test_a_filter_looks_at_the_whole_value(broker: BrokerProcess, skewed: str) -> None:
    query = "where=oldest&filter=path&text=$.last+=+1"
    assert places(read(broker, skewed, query)) == [(5, 1)]


def test_a_download_loses_nothing(broker: BrokerProcess, skewed: str) -> None:
    answer = read(broker, skewed, "where=oldest&partition=5", "download")
    binary, long, tombstone = map(json.loads, answer.text.splitlines())
    assert (binary["value"], binary["value_encoding"]) == ("ff00", "hex")
    assert json.loads(long["value"])["pad"] == LONG
    assert (tombstone["value"], tombstone["key"]) == (None, "tombstone")
    whole = read(broker, skewed, "partition=5&offset=1", "value")
    assert json.loads(whole.text)["pad"] == LONG
    assert whole.headers["content-type"] == "application/octet-stream"


def test_a_download_that_cannot_begin_is_a_page_that_says_why(
    broker: BrokerProcess, skewed: str
) -> None:
    for query, words in (
        ("filter=expression&text=open(1)", "Functions are"),
        ("where=time&value=yesterday", "expected milliseconds"),
    ):
        answer = read(broker, skewed, query, "download")
        assert (answer.status, words in answer.text) == (502, True)


def test_offsets_that_are_no_longer_there_are_passed_over(
    broker: BrokerProcess, skewed: str
) -> None:
    for query, first in (
        ("where=offset&value=118&partition=3", [(3, 118), (3, 119)]),
        (f"where=offset&value={2**63 - 1}&partition=3", []),
    ):
        assert places(read(broker, skewed, query)) == first


@pytest.mark.parametrize("value", ["", "12a", "9" * 5000])
def test_an_offset_that_is_none_is_refused(broker: BrokerProcess, skewed: str, value: str) -> None:
    answer = read(broker, skewed, f"where=offset&value={value}")
    assert "event: failed" in answer.text
    assert "is not an offset" in answer.text


@pytest.mark.parametrize("limit", [7, 50, 200])
@pytest.mark.parametrize("where", ["newest", "oldest", "time&value=1970-01-01T00:00Z"])
def test_a_search_goes_on_where_the_one_before_ended(
    broker: BrokerProcess, skewed: str, where: str, limit: int
) -> None:
    query = f"where={where}&limit={limit}"
    answer = read(broker, skewed, query)
    found = places(answer)
    while more := re.search(r"event: more\ndata: (.*)", answer.text):
        answer = read(broker, skewed, f"{query}&{more[1]}")
        assert 0 < len(places(answer)) <= limit
        found += places(answer)
    assert sorted(found) == [(3, n) for n in range(120)] + [(5, n) for n in range(3)]
    assert len(found) == 123
    assert "data: 123 shown" in answer.text


def test_a_search_with_a_filter_goes_on(broker: BrokerProcess, skewed: str) -> None:
    query = "where=newest&limit=2&filter=expression&text=value.n+%25+50+==+0"
    answer = read(broker, skewed, query)
    assert places(answer) == [(3, 100), (3, 50)]
    more = re.search(r"event: more\ndata: (.*)", answer.text)
    assert more is not None
    assert places(read(broker, skewed, f"{query}&{more[1]}")) == [(3, 0)]


def test_a_principal_that_may_do_everything_may_alter_the_cluster(broker: BrokerProcess) -> None:
    async def work(_: Starlette, state: ConsoleState) -> None:
        assert await state.cluster.client.may_alter()

    served(ConsoleOptions(broker.bootstrap), work)


def test_a_broker_that_hangs_costs_a_page_its_patience_once(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(_: Starlette, state: ConsoleState) -> None:
        client, who = state.cluster.client, fields(include_cluster_authorized_operations=False)
        await client.view()
        async with await asyncio.start_server(_hang, "127.0.0.1", 0) as hanging:
            client._metadata.brokers[7] = hanging.sockets[0].getsockname()[:2]
            with monkeypatch.context() as patched:
                patched.setattr("barnabas.console.cluster.console_client._PATIENCE_S", 0.2)
                with pytest.raises(Unreachable, match="within"):
                    await client.ask_broker(7, ApiKey.DESCRIBE_CLUSTER, who)
            with pytest.raises(Unreachable, match="just now"):
                await client.ask_broker(7, ApiKey.DESCRIBE_CLUSTER, who)
            await client.ask_broker(0, ApiKey.DESCRIBE_CLUSTER, who)

    served(ConsoleOptions(broker.bootstrap), work)


async def _hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await reader.read()
    finally:
        writer.close()
