"""Exactly once by transactions of tasks: what the driver's death between two commits leaves."""

import pytest

from barnabas.bench.transactional_sink import Prepared, commit, prepare
from barnabas.spark.source.filters import Selection
from barnabas.spark.source.read_plan import plan
from barnabas.spark.user_errors import SparkFailure
from tests.spark.conftest import create_topic
from tests.spark.test_read_task import read_all, read_options
from tests.spark.written import rows, sink
from tests.support.broker import BrokerProcess
from tests.support.cluster import until

COMMITTED = {"kafka.isolation.level": "read_committed"}
SOON_MS = 1_000


def prepared(broker: BrokerProcess, topic: str, timeout_ms: int) -> list[Prepared]:
    """Two tasks of ten rows each, with their transactions open."""
    create_topic(broker.bootstrap, topic)
    options, columns = sink(broker.bootstrap, topic)
    return [
        prepare(topic, task, options, columns, rows(f"{task}-{n}" for n in range(10)), timeout_ms)
        for task in range(2)
    ]


def committed(broker: BrokerProcess, topic: str) -> list[str]:
    """The tasks whose rows a reader sees, once for each row."""
    values = read_all(read_options(broker.bootstrap, topic, **COMMITTED))
    return [value.decode().partition("-")[0] for value in values]


def test_the_driver_commits_the_transactions_of_tasks(broker: BrokerProcess, topic: str) -> None:
    transactions = prepared(broker, topic, 60_000)
    options, _ = sink(broker.bootstrap, topic)
    assert committed(broker, topic) == []
    commit(transactions, options.connection)
    assert sorted(committed(broker, topic)) == ["0"] * 10 + ["1"] * 10


def test_a_driver_that_returns_after_the_timeout_leaves_half_a_micro_batch(
    broker: BrokerProcess, topic: str
) -> None:
    """Decision 30: why the sink does not work like this."""
    first, second = prepared(broker, topic, SOON_MS)
    options, _ = sink(broker.bootstrap, topic)
    commit([first], options.connection)  # and now the driver is dead for longer than the timeout

    until(lambda: not is_open(broker, topic), "the coordinator to abort the transaction")
    with pytest.raises(SparkFailure):
        commit([second], options.connection)
    assert committed(broker, topic) == ["0"] * 10


def is_open(broker: BrokerProcess, topic: str) -> bool:
    """True if the last stable offset is before the end of the log."""
    stable, end = (
        plan(read_options(broker.bootstrap, topic, **level), Selection())
        for level in (COMMITTED, {})
    )
    return stable != end
