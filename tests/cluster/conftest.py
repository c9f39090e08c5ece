"""Fixtures: one cluster of three brokers for tests that leave it healthy, new ones for others."""

from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from barnabas.znodes.zookeeper.zookeeper_server import ZooKeeperServer
from tests.support.cluster import Cluster

# No automatic leader balancing; deleted files go soon; a broker that shuts down without a
# controller retries soon.
STILL: Final = (
    "auto.leader.rebalance.enable=false",
    "log.segment.delete.delay.ms=100",
    "controlled.shutdown.retry.backoff.ms=300",
    "replica.lag.time.max.ms=6000",
)
BROKERS: Final = (0, 1, 2)
# With more logs brokers take longer to start than a new cluster does.
MOST_LOGS: Final = 200
_numbers: Final = count(1)
_clusters: Final = pytest.StashKey[list[Cluster]]()


class Shared:
    """A cluster that is replaced when a test left it in a state that does not recover."""

    def __init__(
        self, folder: Path, zookeeper: ZooKeeperServer, shown: Callable[[Cluster], None]
    ) -> None:
        self._folder = folder
        self._zookeeper = zookeeper
        self._shown = shown
        self._cluster: Cluster | None = None

    def healthy(self) -> Cluster:
        """The cluster, once all three brokers run, agree and have settled."""
        if self._cluster is not None and logs(self._cluster) > MOST_LOGS:
            self.close()
        if self._cluster is not None:
            try:
                revive(self._cluster)
            except AssertionError:
                self.close()
        if self._cluster is None:
            number = next(_numbers)
            address = f"{self._zookeeper.address}/cluster-{number}"
            self._cluster = Cluster(self._folder / str(number), address, len(BROKERS), STILL)
            self._shown(self._cluster)
            self._cluster.start()
            self._cluster.wait_settled()
        return self._cluster

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None


def logs(cluster: Cluster) -> int:
    """The most logs that any broker has."""
    folders = [broker.data for broker in cluster.brokers.values() if broker.data.exists()]
    return max((len(list(folder.iterdir())) for folder in folders), default=0)


def revive(cluster: Cluster) -> None:
    """Start the brokers that do not run, and wait until the cluster has settled."""
    for broker in cluster.brokers.values():
        broker.reap()
    cluster.start([n for n, broker in cluster.brokers.items() if not broker.is_running])
    cluster.wait_settled()


@pytest.fixture(scope="session")
def shared(
    tmp_path_factory: pytest.TempPathFactory,
    zookeeper: ZooKeeperServer,
    request: pytest.FixtureRequest,
) -> Iterator[Shared]:
    shown = request.config.stash.setdefault(_clusters, [])
    shared = Shared(tmp_path_factory.mktemp("cluster"), zookeeper, shown.append)
    yield shared
    shared.close()


@pytest.fixture
def cluster(shared: Shared) -> Cluster:
    """Brokers 0, 1 and 2, healthy; topics of other tests may exist."""
    return shared.healthy()


@pytest.fixture
def fresh_cluster(
    tmp_path: Path, zookeeper_chroot: str, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Cluster]]:
    """Create a separate cluster, not started: `fresh_cluster("key=value", brokers=2)`."""
    mine: list[Cluster] = []

    def make(*overrides: str, brokers: int = 3, zookeeper: str | None = None) -> Cluster:
        address = zookeeper or f"{zookeeper_chroot}-{len(mine)}"
        settings: Sequence[str] = [*STILL, *overrides]
        mine.append(Cluster(tmp_path / f"cluster-{len(mine)}", address, brokers, settings))
        request.config.stash.setdefault(_clusters, []).append(mine[-1])
        return mine[-1]

    yield make
    for each in mine:
        each.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of every broker's log beside a failure."""
    report = yield
    if report.failed:
        for cluster in item.config.stash.get(_clusters, [])[-1:]:
            report.sections.append(("brokers", cluster.logs()))
    return report
