"""Reads from a cluster whose leaders are killed: all records, once, in order."""

from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql.streaming.datasource import ReadAllAvailable

from barnabas.spark.source.filters import Selection
from barnabas.spark.source.partition_fetcher import PartitionFetcher
from barnabas.spark.source.query import Query
from barnabas.spark.source.read_plan import plan
from barnabas.spark.source.source_options import SourceOptions
from barnabas.spark.user_errors import DataLoss
from tests.support.cluster import Cluster
from tests.support.confluent_client import admin

pytestmark = pytest.mark.long
TOPIC = "orders"
ALL = ReadAllAvailable()


def create(bootstrap: str, **config: str) -> None:
    settings = {name.replace("_", "."): value for name, value in config.items()}
    client = admin.AdminClient({"bootstrap.servers": bootstrap})
    client.create_topics([admin.NewTopic(TOPIC, 1, 3, config=settings)])[TOPIC].result(60)


def send(bootstrap: str, number: int) -> None:
    """So many records, a few to a batch, acknowledged by all replicas in sync."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "batch.size": 500})
    for each in range(number):
        producer.produce(TOPIC, b"%d" % each)
    assert producer.flush(60) == 0


def test_a_read_goes_on_with_the_next_leader(tmp_path: Path, zookeeper_chroot: str) -> None:
    with Cluster(tmp_path, zookeeper_chroot) as cluster:
        create(cluster.bootstrap)
        send(cluster.bootstrap, 2000)
        given = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": TOPIC}
        small = {"kafka.max.partition.fetch.bytes": "2000"}
        options = SourceOptions.of(given | small, streaming=False)
        (wanted,) = plan(options, Selection())

        offsets: list[int] = []
        with PartitionFetcher(wanted, options) as fetcher:
            for turn, batches in enumerate(fetcher):
                for header, _ in batches:
                    offsets += range(header.base_offset, header.next_offset)
                if turn == 3:
                    cluster.brokers[cluster.leader(TOPIC)].kill()

        assert offsets == list(range(2000))


def test_a_query_detects_whether_a_new_leader_has_the_records_it_read(
    tmp_path: Path, zookeeper_chroot: str
) -> None:
    with Cluster(tmp_path, zookeeper_chroot) as cluster:
        create(cluster.bootstrap, unclean_leader_election_enable="true")
        send(cluster.bootstrap, 50)
        given = {"kafka.bootstrap.servers": cluster.bootstrap, "startingOffsets": "earliest"}
        options = SourceOptions.of(given | {"subscribe": TOPIC}, streaming=True)
        with closing(Query(options)) as query, closing(Query(options)) as restarted:
            end = query.latest(query.initial(), ALL)
            leader = cluster.leader(TOPIC)
            cluster.brokers[leader].kill()
            assert cluster.leader(TOPIC) != leader
            send(cluster.bootstrap, 10)
            further = query.latest(end, ALL)
            assert further[TOPIC]["partitions"]["0"]["offset"] == 60, "nothing was lost"

            last = cluster.leader(TOPIC)
            (behind,) = {0, 1, 2} - {leader, last}
            cluster.brokers[behind].kill()
            send(cluster.bootstrap, 10)
            ahead = query.latest(further, ALL)
            cluster.brokers[last].kill()
            cluster.start([behind])
            assert cluster.leader(TOPIC) == behind
            send(cluster.bootstrap, 30)

            with pytest.raises(DataLoss) as told:
                restarted.latest(ahead, ALL)
            assert f"{TOPIC}-0 was truncated: it was read up to offset 70" in str(told.value)
