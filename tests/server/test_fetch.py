"""Fetch: how much, by name or id, and the response when there is nothing to return."""

import uuid
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from barnabas.base.errors import DiskFault
from barnabas.disk.disk import RealDisk
from barnabas.log.segment.file_slice import FileSlice
from barnabas.server.maintenance import housekeeping
from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.records.batch import headers
from tests.server.raw import Insight, RawClient, batch, fetch, produce, until, with_broker

VERSIONS = range(APIS[ApiKey.FETCH].lowest, APIS[ApiKey.FETCH].highest + 1)
BY_ID = 13


def only(response: Any) -> Any:
    """The one partition that the answer tells of."""
    (topic,) = response.responses
    (partition,) = topic.partitions
    return partition


def offsets(partition: Any) -> list[int]:
    """The base offsets of the batches that came."""
    return [header.base_offset for _, header in headers(bytes(partition.records or b""))]


async def filled(insight: Insight, topic: str, batches: int = 3, partitions: int = 1) -> RawClient:
    """A topic with so many batches of about a kilobyte in each partition."""
    await insight.create(topic, partitions=partitions)
    client = await insight.connect()
    for index in range(partitions):
        for _ in range(batches):
            await client.ask(produce((topic, index, batch(bytes(1000)))))
    return client


# -- by version --------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_returns_the_records(tmp_path: Path, version: int) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders")
        topic_id = insight.topic_id("orders")
        topic = topic_id if version >= BY_ID else "orders"
        # With and without a session: two ways through the broker.
        for epoch in (0, -1) if version >= 7 else (-1,):
            response = await client.ask(fetch((topic, 0, 1), version=version, session_epoch=epoch))
            partition = only(response)
            assert partition.error_code == ErrorCode.none
            assert offsets(partition) == [1, 2]
            assert (partition.high_watermark, partition.last_stable_offset) == (3, 3)
            assert getattr(partition, "log_start_offset", 0) == 0
            assert partition.aborted_transactions is None
            told = response.responses[0]
            assert getattr(told, "topic", "orders") == "orders"
            assert getattr(told, "topic_id", topic_id) == topic_id

    with_broker(tmp_path, scenario)


@pytest.mark.parametrize("version", [4, 11, 12, 17])
def test_a_read_committed_fetch_gets_the_aborted_transactions(tmp_path: Path, version: int) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders")
        topic = insight.topic_id("orders") if version >= BY_ID else "orders"
        for offset in (0, 3):
            partition = only(
                await client.ask(fetch((topic, 0, offset), version=version, isolation_level=1))
            )
            assert partition.aborted_transactions == ()
            assert partition.last_stable_offset == 3

    with_broker(tmp_path, scenario)


# -- what cannot be given ----------------------------------------------------


@pytest.mark.parametrize("offset", [-1, 4, 2**62])
@pytest.mark.parametrize("version", [4, 12, 17])
def test_an_offset_out_of_range_is_answered_at_once(
    tmp_path: Path, offset: int, version: int
) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders")
        topic = insight.topic_id("orders") if version >= BY_ID else "orders"
        partition = only(
            await client.ask(fetch((topic, 0, offset), version=version, max_wait_ms=60_000))
        )
        assert partition.error_code == ErrorCode.offset_out_of_range
        assert (partition.high_watermark, partition.last_stable_offset) == (-1, -1)

    with_broker(tmp_path, scenario)


@pytest.mark.parametrize(
    ("topic", "partition", "version", "code"),
    [
        ("nowhere", 0, 12, ErrorCode.unknown_topic_or_partition),
        ("orders", 9, 12, ErrorCode.unknown_topic_or_partition),
        ("orders", -1, 4, ErrorCode.unknown_topic_or_partition),
        (uuid.UUID(int=99), 0, 13, ErrorCode.unknown_topic_id),
        (None, 0, 17, ErrorCode.unknown_topic_id),
    ],
)
def test_an_unknown_partition_is_an_error_at_once(
    tmp_path: Path, topic: Any, partition: int, version: int, code: ErrorCode
) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders")
        wanted = (topic, partition, 0)
        answer = only(await client.ask(fetch(wanted, version=version, max_wait_ms=60_000)))
        assert answer.error_code == code

    with_broker(tmp_path, scenario)


def test_a_partition_that_fails_does_not_hold_back_the_others(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", partitions=2)
        wanted = [("orders", 0, 99), ("nowhere", 0, 0), ("orders", 1, 0)]
        response = await client.ask(fetch(*wanted, max_wait_ms=60_000))
        codes = [p.error_code.name for topic in response.responses for p in topic.partitions]
        assert codes == ["offset_out_of_range", "unknown_topic_or_partition", "none"]
        assert offsets(response.responses[2].partitions[0]) == [0, 1, 2]

    with_broker(tmp_path, scenario)


def test_epochs_that_are_not_the_leaders_are_refused(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders")
        leader = insight.leader("orders")
        leader.epoch = type(leader.epoch)(5)
        codes = [
            only(await client.ask(fetch(("orders", 0, 0), epoch=epoch))).error_code
            for epoch in (4, 5, 6, -1)
        ]
        assert codes == [
            ErrorCode.fenced_leader_epoch,
            ErrorCode.none,
            ErrorCode.unknown_leader_epoch,
            ErrorCode.none,
        ]

    with_broker(tmp_path, scenario)


def test_a_fetcher_whose_log_diverged_gets_the_diverging_epoch(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders")
        leader = insight.leader("orders")
        before = leader.epoch
        leader.epoch = type(leader.epoch)(before + 5)
        await client.ask(produce(("orders", 0, batch())))
        agreed = only(await client.ask(fetch(("orders", 0, 3), last_epoch=before)))
        assert (agreed.diverging_epoch.epoch, agreed.error_code) == (-1, ErrorCode.none)
        # Of the epoch in between there is nothing here.
        parted = only(
            await client.ask(fetch(("orders", 0, 4), last_epoch=before + 2, max_wait_ms=60_000))
        )
        assert (parted.diverging_epoch.epoch, parted.diverging_epoch.end_offset) == (before, 3)
        assert not parted.records
        # Of the old epoch it has more than we.
        longer = only(await client.ask(fetch(("orders", 0, 4), last_epoch=before)))
        assert (longer.diverging_epoch.epoch, longer.diverging_epoch.end_offset) == (before, 3)

    with_broker(tmp_path, scenario)


@pytest.mark.parametrize(
    ("version", "epoch", "code"),
    [
        (12, 0, ErrorCode.kafka_storage_error),
        (12, -1, ErrorCode.kafka_storage_error),
        (6, -1, ErrorCode.kafka_storage_error),
        (5, -1, ErrorCode.not_leader_or_follower),
    ],
)
def test_a_failed_disk_is_an_error_to_its_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, epoch: int, code: ErrorCode
) -> None:
    """Readers that do not know KAFKA_STORAGE_ERROR get one upon which they try again."""
    good, bad = tmp_path / "good", tmp_path / "bad"

    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", partitions=2)
        (folder,) = [
            log.disk.log_dir for log in insight.running.broker.logs if log.partition[1] == 0
        ]

        def fail(extent: FileSlice) -> memoryview:
            raise DiskFault(folder, OSError(5, "Input/output error"))

        with monkeypatch.context() as broken:
            broken.setattr(FileSlice, "warm", fail)
            failing = fetch(("orders", 0, 0), session_epoch=epoch, version=version)
            assert only(await client.ask(failing)).error_code == code
        partition = only(await client.ask(fetch(("orders", 1, 0), session_epoch=epoch)))
        assert offsets(partition) == [0, 1, 2]

    with_broker(good, scenario, log_dirs=f"{good},{bad}")


# -- how much ----------------------------------------------------------------


@pytest.mark.parametrize("limits", [{"max_bytes": 1}, {"partition_max_bytes": 1}, {"max_bytes": 0}])
@pytest.mark.parametrize("epoch", [0, -1])
def test_the_first_batch_comes_however_small_the_limit(
    tmp_path: Path, limits: dict[str, Any], epoch: int
) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders")
        sent = fetch(("orders", 0, 1), session_epoch=epoch, **limits)
        assert offsets(only(await client.ask(sent))) == [1]

    with_broker(tmp_path, scenario)


def test_only_one_partition_gives_more_than_the_limit(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", partitions=3)
        wanted = [("orders", 0, 3), ("orders", 1, 0), ("orders", 2, 0)]
        response = await client.ask(fetch(*wanted, max_bytes=1))
        got = [offsets(p) for topic in response.responses for p in topic.partitions]
        assert got == [[], [0], []]

    with_broker(tmp_path, scenario)


def test_partitions_share_the_limit_of_the_whole_answer(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", partitions=3)
        wanted = [("orders", index, 0) for index in range(3)]
        response = await client.ask(fetch(*wanted, max_bytes=4500))
        got = [offsets(p) for topic in response.responses for p in topic.partitions]
        assert got == [[0, 1, 2], [0], []]
        # And the broker has a limit of its own.
        response = await client.ask(fetch(*wanted, partition_max_bytes=2500))
        got = [offsets(p) for topic in response.responses for p in topic.partitions]
        assert got == [[0, 1], [0, 1], [0, 1]]

    with_broker(tmp_path, scenario)


def test_the_brokers_own_limit_is_kept(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders")
        assert offsets(only(await client.ask(fetch(("orders", 0, 0))))) == [0]

    with_broker(tmp_path, scenario, fetch_max_bytes=1024)


# -- sessions, over the wire -------------------------------------------------


def test_a_session_continues_and_its_errors_are_returned(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", partitions=2, batches=1)
        full = await client.ask(fetch(("orders", 0, 1), ("orders", 1, 1), session_epoch=0))
        session = full.session_id
        assert session > 0
        quiet = await client.ask(fetch(session_id=session, session_epoch=1))
        assert (quiet.session_id, quiet.responses) == (session, ())
        await client.ask(produce(("orders", 1, batch())))
        news = only(await client.ask(fetch(session_id=session, session_epoch=2)))
        assert (news.partition_index, offsets(news)) == (1, [1])
        forgetting = fetch(session_id=session, session_epoch=3, forgotten=(("orders", 1),))
        assert (await client.ask(forgetting)).responses == ()
        wrong = await client.ask(fetch(session_id=session, session_epoch=9))
        assert wrong.error_code == ErrorCode.invalid_fetch_session_epoch
        lost = await client.ask(fetch(session_id=session + 1, session_epoch=1))
        assert lost.error_code == ErrorCode.fetch_session_id_not_found
        by_id = await client.ask(fetch(session_id=session, session_epoch=4, version=13))
        assert by_id.error_code == ErrorCode.fetch_session_topic_id_error
        await client.ask(fetch(("orders", 0, 0), session_id=session, session_epoch=-1))
        assert len(insight.sessions) == 0

    with_broker(tmp_path, scenario)


# -- memory ------------------------------------------------------------------


def test_housekeeping_releases_the_memory_of_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: list[int] = []
    release_memory = RealDisk.release_memory

    def noted(self: RealDisk) -> Any:
        files.append(len(self._resident.files))
        return release_memory(self)

    monkeypatch.setattr(RealDisk, "release_memory", noted)
    monkeypatch.setattr(housekeeping, "RELEASE_MEMORY_MS", 10)

    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", batches=300)
        await client.ask(fetch(("orders", 0, 0), max_bytes=200_000, version=12))
        await until(lambda: 1 in files)
        await until(lambda: files[-1] == 0)

    with_broker(tmp_path, scenario)
