"""Transactions whose records cannot be flushed: no client gets a success."""

import errno
from collections.abc import Collection
from pathlib import Path
from typing import ClassVar

import pytest

from barnabas.base.errors import DiskFault, ErrorCode
from barnabas.coordinator.coordinator_topic import partition_of
from barnabas.disk.disk import RealDisk
from tests.server.admin.running import broker, until
from tests.server.admin.test_transactions import add, create, end, init

ID = "till"


class FailsOnce(RealDisk):
    """Fails the next fsync of a path with the name in it, and no other."""

    fails: ClassVar[list[str]] = []

    def _fail(self, paths: Collection[str]) -> None:
        if self.fails and any(self.fails[0] in path for path in paths):
            self.fails.clear()
            raise DiskFault(self.log_dir, OSError(errno.EIO, "fsync failed"))

    def sync_all(self, paths: Collection[str], /) -> None:
        self._fail(paths)
        super().sync_all(paths)

    def sync(self, path: str = "", /) -> None:
        self._fail([path])
        super().sync(path)


@pytest.fixture(autouse=True)
def nothing_fails() -> None:
    FailsOnce.fails.clear()


@pytest.mark.parametrize("request_that_fails", ["AddPartitionsToTxn", "EndTxn"])
def test_a_request_whose_record_is_not_flushed_is_refused(
    tmp_path: Path, request_that_fails: str
) -> None:
    folders = tmp_path / "a", tmp_path / "b"
    with (
        broker(*folders, disk=FailsOnce, log_flush_interval_messages="1") as running,
        running.client() as client,
    ):
        create(client, "orders")
        producer = init(client, ID)
        if request_that_fails == "AddPartitionsToTxn":
            FailsOnce.fails.append("__transaction_state")
            (code,) = add(client, ID, producer, {"orders": (0,)}).values()
        else:
            assert [*add(client, ID, producer, {"orders": (0,)}).values()] == [ErrorCode.none]
            FailsOnce.fails.append("__transaction_state")
            code = end(client, ID, producer, version=4).error_code
        assert not FailsOnce.fails
        assert code is ErrorCode.not_coordinator
        assert end(client, ID, producer, version=4).error_code is code


def test_a_transaction_whose_marker_is_not_flushed_is_not_completed(tmp_path: Path) -> None:
    folders = tmp_path / "a", tmp_path / "b"
    with (
        broker(*folders, disk=FailsOnce, log_flush_interval_messages="1") as running,
        running.client() as client,
    ):
        create(client, "orders")
        producer = init(client, ID)
        home = f"__transaction_state-{partition_of(ID, 50)}"
        (folder,) = (each for each in folders if (each / home).exists())
        away = next(each for each in range(3) if not (folder / f"orders-{each}").exists())
        assert [*add(client, ID, producer, {"orders": (away,)}).values()] == [ErrorCode.none]
        FailsOnce.fails.append(f"orders-{away}")
        assert end(client, ID, producer, version=4).error_code is ErrorCode.none
        until(lambda: not FailsOnce.fails)
        for _ in range(3):
            code = end(client, ID, producer, version=4).error_code
            assert code is ErrorCode.concurrent_transactions
