"""Archives and mirrors on the page of pipelines: position, rate and lag, without Spark."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer
from starlette.applications import Starlette

from barnabas.console.cluster.pipeline_files import find_archives, topic_id_of
from barnabas.console.console_options import ConsoleOptions
from barnabas.console.console_state import ConsoleState
from barnabas.console.pages.pipelines_page import _command
from barnabas.console.watch.mirrors import STATE_TOPIC, MirroredTopic
from barnabas.console.watch.progress_rates import ProgressRates
from barnabas.console.web.actions import WrongInput
from barnabas.spark.archive.archive_manifest import ArchivedPartition, ArchivedTopic, Manifest
from tests.console.test_web import ask, served
from tests.support.broker import BrokerProcess
from tests.support.confluent_client import admin


@pytest.fixture
def orders(topic: str, broker: BrokerProcess) -> str:
    """A topic with 10 messages in each of two partitions."""
    client = admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    client.create_topics([admin.NewTopic(topic, 2, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(20):
        producer.produce(topic, b"v", partition=number % 2)
    producer.flush(30)
    return topic


def archived(folder: Path, topic: str, topic_id: str) -> Path:
    """The manifest of an archive with 7 records of the first partition, and none of the second."""
    partitions = {0: ArchivedPartition(0, 7, records=7)}
    path = folder / "archives" / "a" / "_manifest.json"
    path.parent.mkdir(parents=True)
    path.write_text(Manifest(1, {topic: ArchivedTopic(topic_id, 2, partitions)}).to_json())
    return path


def test_an_archive_has_its_lag_and_none_if_its_topic_is_another(
    broker: BrokerProcess, orders: str, tmp_path: Path
) -> None:
    async def work(app: Starlette, state: ConsoleState) -> None:
        row = (await state.cluster.index.get()).topics[orders]
        path = archived(tmp_path, orders, topic_id_of(row))
        page = await ask(app, "GET", "/pipelines")
        assert '<td class="n">7</td>' in page.text
        assert '<td class="n">13</td></tr>' in page.text
        path.write_text(path.read_text().replace(topic_id_of(row), "AAAAAAAAAAAAAAAAAAAAAA"))
        page = await ask(app, "GET", "/pipelines")
        assert '<td class="n">13</td></tr>' not in page.text

    served(ConsoleOptions(broker.bootstrap, pipelines=(tmp_path,)), work)


def test_a_manifest_that_is_none_is_an_error_of_its_archive(tmp_path: Path) -> None:
    path = archived(tmp_path, "orders", "id")
    assert find_archives((tmp_path,))[0].records == 7
    path.write_text("[]")
    (found,) = find_archives((tmp_path,))
    assert "is not an archive manifest" in found.error


def test_mirrors_are_found_by_their_state_and_followed(
    broker: BrokerProcess, orders: str, request: pytest.FixtureRequest
) -> None:
    """One of a topic of this cluster, whose lag is known, and one of another."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    client = admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    client.create_topics([admin.NewTopic(STATE_TOPIC, 1, 1)])[STATE_TOPIC].result(30)
    request.addfinalizer(lambda: client.delete_topics([STATE_TOPIC])[STATE_TOPIC].result(30))

    def note(
        cluster: str, source: str, partition: int, offset: int, *, is_gone: bool = False
    ) -> None:
        key = json.dumps([cluster, source, "s", f"copy-of-{source}", "t", partition, offset])
        value = None if is_gone else json.dumps({"target": offset, "leaderEpoch": 0})
        producer.produce(STATE_TOPIC, value, key)
        producer.flush(30)

    async def work(app: Starlette, state: ConsoleState) -> None:
        here = str((await state.cluster.client.view()).cluster_id)
        note(here, orders, 0, 4)
        note(here, orders, 1, 10)
        note("elsewhere", "payments", 0, 99)
        producer.produce(STATE_TOPIC, b"1", b"not a mirror's")
        own = MirroredTopic(here, orders, "s", f"copy-of-{orders}", "t")
        rows = {row.topic: row for row in await state.cluster.mirrors.get()}
        assert (rows[own].copied, rows[own].lag) == (14, 6)
        assert [row.lag for row in rows.values() if row.topic.source == "payments"] == [None]
        note(here, orders, 0, 9)
        note(here, orders, 0, 4, is_gone=True)
        rows = {row.topic: row for row in await state.cluster.mirrors.get()}
        assert (rows[own].copied, rows[own].lag) == (19, 1)
        page = await ask(app, "GET", "/pipelines")
        assert f"copy-of-{orders}" in page.text
        assert "not known here" in page.text

    served(ConsoleOptions(broker.bootstrap), work)


def test_a_rate_is_that_of_the_last_minute_and_begins_again_after_a_gap() -> None:
    rates = ProgressRates()
    assert rates.observe("a", 0, 100) is None
    assert rates.observe("a", 1_000, 100) is None
    assert rates.observe("a", 10_000, 200) == 10
    assert rates.observe("a", 61_000, 200) == pytest.approx(100 / 60)  # the first look is too old
    assert rates.observe("a", 200_000, 900) is None
    assert rates.observe("a", 210_000, 100) is None  # it was made again


@pytest.mark.parametrize(
    ("topics", "to", "prefix"),
    [
        ("", "other:9092", ""),
        ("--to=x", "other:9092", ""),
        ("a/b", "other:9092", ""),
        ("orders", "other", ""),
        ("orders", "--help:1", ""),
        ("orders", "other:9092,", ""),
        ("orders", "other:9092", "a b"),
    ],
)
def test_a_mirror_is_refused_that_cannot_be_meant(topics: str, to: str, prefix: str) -> None:
    page: Any = SimpleNamespace(
        state=SimpleNamespace(options=ConsoleOptions("b:9092", pipelines=(Path("p"),)))
    )
    with pytest.raises(WrongInput):
        _command(page, "mirror", {"topics": topics, "to": to, "prefix": prefix})


def test_a_mirror_is_the_command_of_its_form() -> None:
    page: Any = SimpleNamespace(
        state=SimpleNamespace(options=ConsoleOptions("b:9092", pipelines=(Path("p"),)))
    )
    form = {"topics": "orders, payments", "to": "[::1]:9092,other.example:9093", "prefix": "eu."}
    name, command = _command(page, "mirror", form)
    assert name == "mirror of orders, payments to [::1]:9092,other.example:9093"
    assert command == [
        *("pipeline", "mirror", "orders", "payments", "--to", "[::1]:9092,other.example:9093"),
        *("--prefix=eu.", "--continuous", "-b", "b:9092"),
    ]
