"""A rolling restart under load: no client sees an error or misses a record."""

import pytest

from tests.cluster.conftest import BROKERS
from tests.cluster.operations import create
from tests.support.application import PARTITIONS, Application
from tests.support.cluster import Cluster

pytestmark = pytest.mark.timeout(300)


def test_in_a_rolling_restart_no_request_fails_and_nothing_is_lost(
    cluster: Cluster, topic: str
) -> None:
    create(cluster, topic, PARTITIONS, configs={"min.insync.replicas": "2"})
    cluster.wait_settled()
    application = Application(cluster.bootstrap, topic)
    application.start()
    try:
        for number in BROKERS:
            application.wait_for_progress()
            cluster.brokers[number].stop()
            application.wait_for_progress()
            cluster.brokers[number].start()
            cluster.wait_settled()
        application.wait_for_progress()
    finally:
        application.stop()
    application.check()
    print(f"{application.delivered} records went through {len(BROKERS)} restarts")
