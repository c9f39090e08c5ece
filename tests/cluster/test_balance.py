"""Leader balancing: docs/stories/leaders-come-home.md shows the real output."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from barnabas.cli.main import run
from tests.cluster.operations import create, partitions
from tests.support.cluster import Cluster, until

pytestmark = pytest.mark.timeout(300)

PAGE: Final = Path(__file__).parents[2] / "docs" / "stories" / "leaders-come-home.md"
EACH_LEADS: Final = ((0, 1, 2), (1, 2, 0), (2, 0, 1))

Capture = pytest.CaptureFixture[str]


class Story:
    """Three brokers that each lead one partition; two of them die and return."""

    def __init__(self, cluster: Cluster, topic: str, capfd: Capture) -> None:
        self.cluster = cluster
        self.topic = topic
        self._capfd = capfd

    def begin(self) -> None:
        create(self.cluster, self.topic, assignment=EACH_LEADS)
        self.cluster.wait_settled()
        assert self.leaders() == [0, 1, 2]
        self.is_told()

    def let_two_die_and_return(self) -> None:
        for number in (0, 1):
            self.cluster.brokers[number].kill()
        until(lambda: self.leaders() == [2, 2, 2], "the last one to lead all")
        until(lambda: self._in_sync() == [1, 1, 1], "the dead to leave the ISRs")
        self.is_told()
        self.cluster.start([0])
        until(lambda: self._in_sync() == [2, 2, 2], "the first to be in sync")
        self.cluster.start([1])
        until(lambda: self._in_sync() == [3, 3, 3], "both to be in sync")

    def leaders(self) -> list[int]:
        found = partitions(self.cluster, self.topic)
        return [found[index].leader_id for index in sorted(found)]

    def _in_sync(self) -> list[int]:
        found = partitions(self.cluster, self.topic)
        return [len(found[index].isr_nodes) for index in sorted(found)]

    def is_told(self) -> None:
        """Assert that the page has the output of `barnabas topics describe`."""
        self._capfd.readouterr()
        assert run(["topics", "describe", self.topic, "-b", self.cluster.bootstrap]) == 0
        lines = [line.rstrip() for line in self._capfd.readouterr().out.splitlines()]
        start = next(n for n, line in enumerate(lines) if line.startswith("partition "))
        table = "\n".join(lines[start : start + 1 + len(EACH_LEADS)])
        assert f"```text\n{table}\n```" in PAGE.read_text(), table


def test_leaderships_return_to_two_brokers_that_died_and_restarted(
    fresh_cluster: Callable[..., Cluster], topic: str, capfd: Capture
) -> None:
    cluster = fresh_cluster(
        "auto.leader.rebalance.enable=true", "leader.imbalance.check.interval.seconds=1"
    )
    cluster.start()
    story = Story(cluster, topic, capfd)
    story.begin()
    story.let_two_die_and_return()
    until(lambda: story.leaders() == [0, 1, 2], "the leaders to be home")
    cluster.wait_settled()
    story.is_told()


def test_without_balancing_the_leaders_stay_where_they_are(
    cluster: Cluster, topic: str, capfd: Capture
) -> None:
    story = Story(cluster, topic, capfd)
    story.begin()
    story.let_two_die_and_return()
    cluster.wait_settled()
    assert story.leaders() == [2, 2, 2]
    story.is_told()
