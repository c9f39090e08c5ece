"""Fixtures: clusters with a network that can be partitioned."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas.znodes.zookeeper.zookeeper_server import ZooKeeperServer
from tests.chaos.cluster import CutCluster

StartCluster = Callable[..., CutCluster]


@pytest.fixture
def cut_cluster(tmp_path: Path, zookeeper_chroot: str) -> Iterator[StartCluster]:
    """Start a separate cluster: `cut_cluster("key=value", brokers=3)`."""
    mine: list[CutCluster] = []

    def start(*overrides: str, brokers: int = 3, prelude: str = "") -> CutCluster:
        mine.append(CutCluster(tmp_path, zookeeper_chroot, brokers, overrides, prelude))
        mine[-1].start()
        return mine[-1]

    yield start
    for cluster in mine:
        cluster.close()


@pytest.fixture(scope="module")
def shared_cluster(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: ZooKeeperServer
) -> Iterator[CutCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    cluster = CutCluster(folder, f"{zookeeper.address}/{folder.name}")
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def cluster(shared_cluster: CutCluster) -> Iterator[CutCluster]:
    """Three brokers for the tests of a module; each test finds them healthy."""
    yield shared_cluster
    shared_cluster.heal()
