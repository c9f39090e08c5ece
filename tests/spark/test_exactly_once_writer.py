"""Exactly-once writes: tasks and drivers fail at every point.

Without a Spark session: what Spark calls is called here, so that a failure can be put anywhere.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from confluent_kafka import OFFSET_END
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import AdminClient

from barnabas.base.clock import SystemClock
from barnabas.client.metadata import TopicInfo
from barnabas.client.retries import Steps
from barnabas.spark.exactly_once import exactly_once_publish, exactly_once_writer
from barnabas.spark.exactly_once.exactly_once_log import (
    Decided,
    Published,
    QueryHistory,
    Share,
    Staged,
    decode,
    encode,
)
from barnabas.spark.exactly_once.exactly_once_staging import Staging
from barnabas.spark.exactly_once.exactly_once_writer import StagedMessage, commit, stage
from barnabas.spark.sink.batch_sender import ProducerId, Sender
from barnabas.spark.source.source_options import TopicPartition
from barnabas.spark.spark_cluster import SparkCluster
from barnabas.spark.user_errors import SparkFailure
from tests.spark.conftest import create_topic
from tests.spark.written import by_partition, rows, sink, values
from tests.support.broker import BrokerProcess

TASKS: Final = 2
ROWS: Final = 40


class Killed(BaseException):
    """Simulates SIGKILL: nothing continues or cleans up."""


class Query:
    """A streaming query of two tasks, whose driver may be started again."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.options, self.columns = sink(bootstrap, topic)
        self.name = f"query-of-{topic}"
        self.bootstrap, self.topic = bootstrap, topic

    def run_tasks(self, batch_id: int, tasks: int = TASKS) -> list[StagedMessage]:
        texts = self.rows_of(batch_id)
        return [
            stage(self.name, task, self.options, self.columns, rows(texts[task::tasks]))
            for task in range(tasks)
        ]

    def rows_of(self, batch_id: int) -> list[str]:
        return [f"{batch_id}:{number}" for number in range(ROWS)]

    def commit(self, written: list[StagedMessage], batch_id: int) -> None:
        commit(written, batch_id, self.options.connection, SystemClock())

    def run(self, batch_id: int, tasks: int = TASKS) -> None:
        self.commit(self.run_tasks(batch_id, tasks), batch_id)

    def check(self, *batch_ids: int) -> None:
        """The topics have every row of these micro-batches once, and nothing else."""
        expected = Counter(row for batch_id in batch_ids for row in self.rows_of(batch_id))
        assert Counter(values(self.bootstrap, self.topic)) == expected

    def killed(
        self,
        patch: pytest.MonkeyPatch,
        written: list[StagedMessage],
        batch_id: int,
        number: int,
        *,
        arrived: bool,
    ) -> None:
        """Commit, and die with the n-th batch to a broker, or before Spark notes the commit."""
        with patch.context() as patched:
            killed_at(patched, number, arrived=arrived)
            try:
                self.commit(written, batch_id)
            except Killed:
                return


@pytest.fixture
def query(served: BrokerProcess, topic: str) -> Query:
    create_topic(served.bootstrap, topic, 3)
    return Query(served.bootstrap, topic)


def killed_at(monkeypatch: pytest.MonkeyPatch, number: int, *, arrived: bool) -> None:
    """Let the process die with its n-th batch to a broker, which is appended or not."""
    sent = 0
    send = Sender.send

    def die(self: Sender, *arguments: Any) -> None:
        nonlocal sent
        sent += 1
        if sent < number:
            send(self, *arguments)
            return
        if arrived:
            send(self, *arguments)
            self.flush()
        raise Killed

    monkeypatch.setattr(Sender, "send", die)


def test_micro_batches_are_published_in_the_order_of_tasks_and_rows(query: Query) -> None:
    query.run(0, tasks=1)
    query.run(1, tasks=1)

    query.check(0, 1)
    written = query.rows_of(0) + query.rows_of(1)
    for listed in by_partition(query.bootstrap, query.topic).values():
        assert [written.index(row) for row in listed] == sorted(map(written.index, listed))


def test_a_committed_batch_is_never_written_twice(query: Query) -> None:
    query.run(0)
    query.run(1)
    query.run(1)
    query.run(0)

    query.check(0, 1)


# A commit sends the decision, then the batches, then the note that it is done.
@pytest.mark.parametrize("arrived", [False, True])
@pytest.mark.parametrize("number", [1, 2, 4, 7, 8, 9])
def test_the_next_driver_completes_a_commit_killed_at_any_point(
    query: Query, monkeypatch: pytest.MonkeyPatch, number: int, arrived: bool
) -> None:
    query.run(0)
    written = query.run_tasks(1)
    query.killed(monkeypatch, written, 1, number, arrived=arrived)

    query.run(1, tasks=3)  # the rows are the same, who has which is not
    query.run(2)

    query.check(0, 1, 2)


def test_a_commit_killed_several_times_is_completed(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (4, 3, 1):
        query.killed(monkeypatch, query.run_tasks(0), 0, number, arrived=True)

    query.run(0)

    query.check(0)


def test_the_output_of_a_killed_task_never_counts(query: Query) -> None:
    def dies() -> Iterator[Any]:
        yield from rows(query.rows_of(0))
        raise Killed

    with pytest.raises(Killed):
        stage(query.name, 0, query.options, query.columns, dies())
    assert values(query.bootstrap, query.topic) == []

    query.run(0)

    query.check(0)


def test_only_the_task_attempt_that_spark_commits_counts(query: Query) -> None:
    query.run_tasks(0)
    query.run(0)

    query.check(0)


def test_tasks_that_share_a_staging_partition_are_distinguished(query: Query) -> None:
    query.run(0, tasks=2 * 8 + 1)

    query.check(0)


def test_a_batch_without_rows_leaves_no_trace(query: Query) -> None:
    empty = stage(query.name, 0, query.options, query.columns, rows([]))
    query.commit([empty], 0)

    assert Staging(query.name, query.options.connection).found() is None

    query.run(1)
    query.commit([empty], 2)
    query.check(1)


def test_two_drivers_that_commit_the_same_batch_at_once_write_it_once(query: Query) -> None:
    query.run(0)
    attempts = [query.run_tasks(1, tasks) for tasks in (1, 2, 3)]
    threads = [
        threading.Thread(target=_tried, args=(lambda each=each: query.commit(each, 1),))
        for each in attempts
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    query.run(1)
    query.check(0, 1)


def _tried(attempt: Callable[[], None]) -> None:
    """One that comes too late may be refused by a broker; its query fails, and is restarted."""
    try:
        attempt()
    except SparkFailure:
        return


def test_a_driver_that_was_overtaken_while_it_decided_writes_nothing(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = query.run_tasks(0, tasks=3)
    new_decision = exactly_once_writer.new_decision

    def overtaken(*arguments: Any) -> Decided:
        decided = new_decision(*arguments)
        monkeypatch.undo()
        query.run(0)
        query.run(1)
        return decided

    monkeypatch.setattr(exactly_once_writer, "new_decision", overtaken)
    query.commit(late, 0)

    query.check(0, 1)
    query.run(2)
    query.check(0, 1, 2)


def test_staged_records_are_deleted_once_published(query: Query) -> None:
    query.run(0)
    query.run(1)

    staging = Staging(query.name, query.options.connection)
    aside = by_partition(query.bootstrap, staging.topic)
    assert {number: len(listed) for number, listed in aside.items() if listed} == {0: 1}


def test_a_broker_that_does_not_know_the_staging_topic_yet_is_asked_again(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = query.run_tasks(0)
    existing, unaware = SparkCluster.existing, iter([True, True])

    def learns_late(self: SparkCluster, names: tuple[str, ...]) -> Steps[dict[str, TopicInfo]]:
        found = yield from existing(self, names)
        return {} if next(unaware, False) else found

    monkeypatch.setattr(SparkCluster, "existing", learns_late)
    query.commit(written, 0)

    query.check(0)


def test_a_lost_decision_is_reported_and_the_batch_is_written_after_a_restart(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = query.run_tasks(0)
    with monkeypatch.context() as patched:
        patched.setattr(Staging, "append", lambda *_: None)
        with pytest.raises(SparkFailure, match=r"the decision about micro-batch 0 in .* is gone"):
            query.commit(written, 0)
    query.commit(written, 0)

    query.check(0)


def test_a_lost_staging_topic_is_named(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    written = query.run_tasks(0)

    def without_topic(*arguments: Any) -> None:
        monkeypatch.setattr(Staging, "found", lambda self: None)
        exactly_once_publish.publish(*arguments)

    monkeypatch.setattr(exactly_once_writer, "publish", without_topic)

    with pytest.raises(SparkFailure, match="is gone, and with it micro-batch 0"):
        query.commit(written, 0)


def test_sequences_wrap_after_the_largest(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    query.run(0)
    staging = Staging(query.name, query.options.connection)
    found = staging.found()
    assert found is not None
    history, _ = staging.history(found)
    assert history.producer is not None
    near = dict.fromkeys(history.sequences, 2**31 - 5)
    # A producer whose numbers have come so far; a broker knows nothing of it yet.
    other = ProducerId(history.producer.number + 10**6, 0)
    staging.append(Published(5, other, near), SystemClock())

    query.killed(monkeypatch, query.run_tasks(6), 6, 5, arrived=True)
    query.run(6)
    query.run(7)

    query.check(0, 6, 7)


def forget(query: Query, batch_id: int) -> None:
    """Note a micro-batch as published that no topic has, as if its log had been cut since."""
    staging = Staging(query.name, query.options.connection)
    found = staging.found()
    assert found is not None
    history, _ = staging.history(found)
    assert history.producer is not None
    later = {each: next_ + 100 for each, next_ in history.sequences.items()}
    entry = Published(batch_id, history.producer, later, history.own)
    staging.append(entry, SystemClock())


def test_a_log_that_lost_published_records_is_reported_once_and_accepts_new_ones(
    query: Query,
) -> None:
    query.run(0)
    forget(query, 1)

    with pytest.raises(SparkFailure) as told:
        query.run(2)
    for partition in range(3):
        assert f"{query.topic}-{partition}" in str(told.value)
    assert "lost acknowledged records of earlier micro-batches" in str(told.value)
    query.run(2)
    query.run(3)
    forget(query, 4)
    with pytest.raises(SparkFailure, match="lost acknowledged records of earlier micro-batches"):
        query.run(5)

    query.check(0, 2, 3, 5)


# It is decided, refused, decided again, and so on, partition by partition.
@pytest.mark.parametrize("number", [2, 3, 5, 9, 12])
def test_the_next_driver_completes_a_commit_to_a_truncated_log(
    query: Query, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    query.run(0)
    forget(query, 1)
    with monkeypatch.context() as patched:
        killed_at(patched, number, arrived=True)
        with pytest.raises((Killed, SparkFailure)):
            query.commit(query.run_tasks(2), 2)

    for _ in range(2):
        _tried(lambda: query.run(2))
    query.run(3)

    query.check(0, 2, 3)


def test_records_that_retention_may_have_deleted_are_not_published_again(
    served: BrokerProcess, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topic(served.bootstrap, topic)
    query = Query(served.bootstrap, topic)
    # More batches than those of which a broker remembers that it has them.
    many = rows(f"0:{number}" for number in range(400))
    written = [stage(query.name, 0, query.options, query.columns, many)]
    query.killed(monkeypatch, written, 0, 10, arrived=True)
    client = AdminClient({"bootstrap.servers": served.bootstrap})
    for future in client.delete_records([Partition(topic, 0, OFFSET_END)]).values():
        future.result(60)

    with pytest.raises(SparkFailure, match="it lacks what was written before"):
        query.commit(written, 0)


# -- decisions, without a broker ---------------------------------------------

P0, P1 = TopicPartition("a", 0), TopicPartition("b", 3)
ME: Final = ProducerId(7, 0)
DECIDED: Final = Decided(
    4, ME, (Staged(2, 9, 100, 140, (P0, P1, P0)),), (Share(P0, 5, 30, 17), Share(P1, 0, 10, 0))
)


@pytest.mark.parametrize(
    "entry",
    [
        DECIDED,
        DECIDED.revised(Share(P1, 0, 10, 0, ProducerId(8, 1))),
        Published(4, ME, {P0: 35, P1: 10}),
        Published(4, ME, {P0: 35, P1: 10}, {P1: ProducerId(8, 1)}),
    ],
)
def test_an_entry_survives_encoding(entry: Decided | Published) -> None:
    assert decode(encode(entry)) == entry


def test_bytes_that_are_not_an_entry_are_refused() -> None:
    with pytest.raises(SparkFailure, match="cannot be read"):
        decode(b"something else")


def test_the_first_decision_about_a_batch_counts() -> None:
    history = QueryHistory()
    for entry in (DECIDED, DECIDED._replace(tasks=()), DECIDED._replace(batch_id=3)):
        history.apply(entry)

    assert history.unpublished == DECIDED


def test_a_revision_counts_once_and_only_of_the_decision_it_revises() -> None:
    other = Share(P0, 0, 30, 20, ProducerId(8, 0))
    revised = DECIDED.revised(other)
    history = QueryHistory()
    for entry in (
        *(DECIDED, DECIDED.revised(other)),
        *(DECIDED.revised(other._replace(own=ME)), revised._replace(batch_id=3)),
    ):
        history.apply(entry)

    assert history.unpublished == revised
    assert revised.shares == (other, DECIDED.shares[1])


def test_a_published_batch_is_not_decided_again() -> None:
    history = QueryHistory()
    for entry in (DECIDED, Published(4, ME, {P0: 35}), DECIDED._replace(tasks=())):
        history.apply(entry)

    assert history.unpublished is None
    assert (history.published_id, history.sequences) == (4, {P0: 35})
