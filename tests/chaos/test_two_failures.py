"""The two failures that truncation by leader epoch prevents (KIP-101), on real brokers.

Each runs twice: with the safeguard, and without it, where it must fail.
"""

from collections.abc import Callable
from typing import Final

import pytest

from tests.chaos.cluster import CutCluster
from tests.chaos.conftest import StartCluster
from tests.chaos.network import Cut
from tests.chaos.sending import Sending
from tests.support.cluster import until

PATIENT: Final = ("replica.lag.time.max.ms=60000",)
WITHOUT: Final = """
from dataclasses import replace
from barnabas.base.safeguards import Safeguards
from barnabas.server import compose
machine = compose._machine
compose._machine = lambda ending: replace(
    machine(ending), safeguards=Safeguards(epoch_truncation=False)
)
"""

pytestmark = pytest.mark.timeout(300)

Story = Callable[[CutCluster, str], None]


def loss(cluster: CutCluster, topic: str) -> None:
    """B has both records, but does not know yet that the second is committed; its leader dies.

    The next leader dies before B has fetched from it, and B is elected: it was in sync, and must
    have both.
    """
    a, b, c = 0, 1, 2
    cluster.create_topic(topic, [[a, c, b]])
    Sending(cluster.bootstrap, topic, b"m1").acknowledged()
    of_c = [Cut(c, a, only_fetches=True)]
    cluster.network.cut(of_c)
    second = Sending(cluster.bootstrap, topic, b"m2")
    until(lambda: b"m2" in cluster.brokers[b].segments(topic), "m2 on B")
    cluster.network.cut([Cut(b, a, only_fetches=True, only_answers=True)])
    cluster.network.mend(of_c)
    second.acknowledged()
    cluster.network.cut([Cut(b, c, only_fetches=True)])
    cluster.brokers[a].kill()
    until(lambda: cluster.partitions(topic, b)[0].leader_id == c, "C to lead")
    cluster.brokers[c].kill()
    until(lambda: cluster.partitions(topic, b)[0].leader_id == b, "B to lead")
    assert b"m2" in cluster.brokers[b].segments(topic), "a committed record is lost"


def divergence(cluster: CutCluster, topic: str) -> None:
    """Only A has the second record when it dies; B is elected and writes another one there.

    A restarts with a high watermark above both records, and must replace its second by B's.
    """
    a, b = 0, 1
    cluster.create_topic(topic, [[a, b]], {"unclean.leader.election.enable": "true"})
    Sending(cluster.bootstrap, topic, b"m1").acknowledged()
    cluster.brokers[b].kill()
    cluster.wait_isr(topic, [a], asked=a)
    Sending(cluster.bootstrap, topic, b"m2").acknowledged()
    cluster.brokers[a].stop()
    cluster.brokers[b].start()
    until(lambda: cluster.partitions(topic, b)[0].leader_id == b, "B to lead")
    Sending(cluster.bootstrap, topic, b"m3").acknowledged()
    cluster.brokers[a].start()
    cluster.wait_in_sync(topic)
    logs = [cluster.brokers[each].segments(topic) for each in (a, b)]
    assert logs[0] == logs[1], "the logs differ for good"


@pytest.mark.parametrize("story", [loss, divergence])
def test_truncation_by_epoch_prevents_it(
    cut_cluster: StartCluster, topic: str, story: Story
) -> None:
    story(cut_cluster(*PATIENT), topic)


@pytest.mark.parametrize("story", [loss, divergence])
def test_truncation_by_high_watermark_does_not(
    cut_cluster: StartCluster, topic: str, story: Story
) -> None:
    with pytest.raises(AssertionError, match=r"^(a committed record is lost|the logs differ)"):
        story(cut_cluster(*PATIENT, prelude=WITHOUT), topic)
