"""The log of the partition of groups and offsets, over restarts and while it is read."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.request import urlopen

import pytest

from barnabas.base.errors import ConfigError
from barnabas.coordinator import coordinator_runtime
from barnabas.coordinator.loader import load
from barnabas.groups.offsets import committed_offsets
from barnabas.server.groups.group_coordinator import GroupCoordinator
from barnabas.wire.apis import ApiKey
from barnabas.wire.records.batch import headers
from barnabas.wire.records.compression import Codec
from tests.server.admin.client import parts
from tests.server.admin.running import until
from tests.server.group_members import (
    LOADING,
    NOT_COORDINATOR,
    ClassicMember,
    commit,
    committed,
    coordinated,
    fetch_offsets,
    group_broker,
    new_group,
)


def test_groups_and_offsets_are_there_after_a_restart(tmp_path: Path) -> None:
    group, simple = new_group(), new_group()
    with group_broker(tmp_path) as running, running.client() as client:
        client.create("t", partitions=2)
        with ClassicMember(running, coordinated(client, group), "one") as member:
            member.enter()
            assert member.commit("t", 7) == 0
            member_id, generation = member.member_id, member.generation
        commit(client, coordinated(client, simple), {("t", 1): 9})
    with group_broker(tmp_path) as running, running.client() as client:
        coordinated(client, group)
        with ClassicMember(running, group, "one") as member:
            member.member_id, member.generation = member_id, generation
            assert member.heartbeat() == 0
            assert member.sync().assignment == b"mine"
            assert member.commit("t", 8) == 0
        assert committed(client, group) == {("t", 0): 8}
        assert committed(client, coordinated(client, simple)) == {("t", 1): 9}


def test_prometheus_counts_groups_by_state(tmp_path: Path) -> None:
    with (
        group_broker(tmp_path, barnabas_metrics_listener="127.0.0.1:0") as running,
        running.client() as client,
        ClassicMember(running, new_group(), "one") as member,
    ):
        client.create("t")
        commit(client, coordinated(client, new_group()), {("t", 0): 1})
        coordinated(client, member.group)
        member.enter()
        assert running.running.metrics is not None
        host, port = running.running.metrics
        with urlopen(f"http://{host}:{port}/metrics") as answer:
            told = answer.read().decode().splitlines()
    assert 'barnabas_groups{state="Stable"} 1.0' in told
    assert 'barnabas_groups{state="Empty"} 1.0' in told
    assert "barnabas_groups_loading 0.0" in told


def test_a_coordinator_that_still_reads_its_log_says_so(tmp_path: Path) -> None:
    may_load = threading.Event()
    group = new_group()
    with group_broker(tmp_path) as running, running.client() as client:
        client.create("t")
        commit(client, coordinated(client, group), {("t", 0): 5})

    async def when_allowed(*args: Any) -> int:
        await asyncio.get_running_loop().run_in_executor(None, may_load.wait)
        return await load(*args)

    with (
        patch.object(coordinator_runtime, "load", when_allowed),
        group_broker(tmp_path) as running,
        running.client() as client,
        ClassicMember(running, group) as member,
    ):
        assert fetch_offsets(client, group, None).error_code == LOADING
        assert commit(client, group, {("t", 0): 6}) == {("t", 0): LOADING}
        assert member.join().error_code == LOADING
        assert member.sync().error_code == LOADING
        assert member.heartbeat() == LOADING
        assert member.leave().error_code == LOADING
        assert client.call(ApiKey.LIST_GROUPS).error_code == LOADING
        (described,) = client.call(ApiKey.DESCRIBE_GROUPS, groups=(group,)).groups
        assert described.error_code == LOADING
        (deleted,) = client.call(ApiKey.DELETE_GROUPS, groups_names=(group,)).results
        assert deleted.error_code == LOADING
        beat = client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, group_id=group, member_id="m")
        assert beat.error_code == LOADING
        may_load.set()
        until(lambda: fetch_offsets(client, group, None).error_code == 0, "the log to be read")
        assert committed(client, group) == {("t", 0): 5}


def test_a_stopping_broker_answers_pending_group_requests(tmp_path: Path) -> None:
    with group_broker(tmp_path, group_initial_rebalance_delay_ms="60000") as running:
        with running.client() as client:
            group = coordinated(client, new_group())
        member = ClassicMember(running, group)
        member.send_join(3)
        with running.client() as client:
            until(
                lambda: client.call(ApiKey.DESCRIBE_GROUPS, groups=(group,)).groups[0].members,
                "the member to wait",
            )
    assert member.receive_join().error_code == NOT_COORDINATOR
    member.client.close()


def test_the_offsets_of_a_deleted_topic_go_with_it(tmp_path: Path) -> None:
    with group_broker(tmp_path) as running, running.client() as client:
        client.create("kept")
        client.create("gone")
        group = coordinated(client, new_group())
        commit(client, group, {("kept", 0): 1, ("gone", 0): 2})
        client.delete("gone")
        until(lambda: committed(client, group) == {("kept", 0): 1}, "the offset to go")
    with group_broker(tmp_path) as running, running.client() as client:
        assert committed(client, coordinated(client, group)) == {("kept", 0): 1}


def test_offsets_and_empty_groups_expire(tmp_path: Path) -> None:
    with (
        group_broker(tmp_path, offsets_retention_check_interval_ms="20") as running,
        running.client() as client,
    ):
        client.create("t", partitions=2)
        short, long = coordinated(client, new_group()), coordinated(client, new_group())
        commit(client, short, {("t", 0): 1}, 4, retention=timedelta(milliseconds=1))
        commit(client, long, {("t", 0): 1}, 4, retention=timedelta(milliseconds=1))
        commit(client, long, {("t", 1): 2})

        def groups() -> list[str]:
            return [each.group_id for each in client.call(ApiKey.LIST_GROUPS).groups]

        until(lambda: groups() == [long], "the group to expire")
        until(lambda: committed(client, long) == {("t", 1): 2}, "the offset to expire")


def test_records_of_groups_are_compressed_as_configured(tmp_path: Path) -> None:
    with (
        group_broker(tmp_path, offsets_topic_compression_codec="1") as running,
        running.client() as client,
    ):
        client.create("t")
        commit(client, coordinated(client, new_group()), {("t", 0): 1}, metadata="m" * 1000)
    batches = [
        header
        for path in tmp_path.glob("__consumer_offsets-*/*.log")
        for _, header in headers(path.read_bytes())
    ]
    assert {header.codec for header in batches} == {Codec.GZIP}


def test_a_commit_is_flushed_before_its_acknowledgement_if_flush_messages_demands_it(
    tmp_path: Path,
) -> None:
    with (
        group_broker(tmp_path, log_flush_interval_messages="1") as running,
        running.client() as client,
    ):
        client.create("t")
        group = coordinated(client, new_group())
        for offset in range(3):
            commit(client, group, {("t", 0): offset})
            logs = [leader.log for leader in running.running.broker.replicas]
            assert sum(each.log_end_offset for each in logs) == offset + 1
            assert all(each.recovery_point == each.log_end_offset for each in logs)


def test_commits_have_kafkas_base_sequence_and_those_of_before_are_read_and_compacted(
    tmp_path: Path,
) -> None:
    group = new_group()
    properties = {"offsets_topic_segment_bytes": "2000", "log_cleaner_backoff_ms": "50"}

    def sequences() -> dict[str, set[int]]:
        return {
            path.name: {header.base_sequence for _, header in headers(path.read_bytes())}
            for path in sorted(tmp_path.glob("__consumer_offsets-*/*.log"))
            if path.stat().st_size
        }

    with group_broker(tmp_path, **properties) as running, running.client() as client:
        client.create("t", partitions=2)
        coordinated(client, group)
        with patch.object(committed_offsets, "COMMIT_SEQUENCE", -1):
            for offset in range(40):
                commit(client, group, {("t", 0): offset})
        commit(client, group, {("t", 0): 40})
        assert set().union(*sequences().values()) == {-1, 0}
    with group_broker(tmp_path, **properties) as running, running.client() as client:
        coordinated(client, group)
        assert committed(client, group) == {("t", 0): 40}
        for offset in range(40):
            commit(client, group, {("t", 1): offset})
        until(lambda: set().union(*sequences().values()) == {0}, "the cleaner removes old commits")
    with group_broker(tmp_path, **properties) as running, running.client() as client:
        assert committed(client, coordinated(client, group)) == {("t", 0): 40, ("t", 1): 39}


def test_a_codec_that_does_not_exist_is_refused_at_the_start(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match=r"offsets.topic.compression.codec=9: there is no such"),
        group_broker(tmp_path, offsets_topic_compression_codec="9"),
    ):
        pass


def test_no_client_writes_into_the_log_of_groups(tmp_path: Path) -> None:
    with group_broker(tmp_path) as running, running.client() as client:
        coordinated(client, new_group())
        assert client.produce("__consumer_offsets", key=b"k").error_code == 17


def test_a_commit_for_a_topic_that_appears_meanwhile_is_not_acknowledged(tmp_path: Path) -> None:
    ask, is_asked, is_there = GroupCoordinator.ask, threading.Event(), threading.Event()

    async def later(self: GroupCoordinator, *args: Any) -> Any:
        is_asked.set()
        await asyncio.get_running_loop().run_in_executor(None, is_there.wait)
        return await ask(self, *args)

    with group_broker(tmp_path) as running, running.client() as client:
        group = coordinated(client, new_group())
        with (
            patch.object(GroupCoordinator, "ask", later),
            ThreadPoolExecutor(1) as pool,
            running.client() as early,
        ):
            codes = pool.submit(commit, early, group, {("late", 0): 1})
            is_asked.wait()
            client.create("late")
            is_there.set()
            assert codes.result() == {("late", 0): 3}
        assert committed(client, group) == {}


def test_the_offsets_of_a_topic_that_is_deleted_while_they_are_read_go_too(tmp_path: Path) -> None:
    may_load, group = threading.Event(), new_group()
    with group_broker(tmp_path) as running, running.client() as client:
        client.create("kept")
        client.create("gone")
        commit(client, coordinated(client, group), {("kept", 0): 1, ("gone", 0): 2})

    async def when_allowed(*args: Any) -> int:
        await asyncio.get_running_loop().run_in_executor(None, may_load.wait)
        return await load(*args)

    with (
        patch.object(coordinator_runtime, "load", when_allowed),
        group_broker(tmp_path) as running,
        running.client() as client,
    ):
        client.delete("gone")
        until(lambda: client.can_create("gone"), "the topic to be gone")
        may_load.set()
        until(
            lambda: fetch_offsets(client, coordinated(client, group), None).topics,
            "the log to be read",
        )
        assert committed(client, group) == {("kept", 0): 1}


def test_who_asks_for_the_topic_of_groups_finds_it_as_groups_need_it(tmp_path: Path) -> None:
    with group_broker(tmp_path) as running, running.client() as client:
        asked = parts(name="__consumer_offsets")
        until(
            lambda: client.call(ApiKey.METADATA, topics=(asked,)).topics[0].error_code == 0,
            "the topic to be made",
        )
        config = running.running.broker.configs.topic("__consumer_offsets")
        assert config.compacts
        assert len(client.call(ApiKey.METADATA, topics=(asked,)).topics[0].partitions) == 2
