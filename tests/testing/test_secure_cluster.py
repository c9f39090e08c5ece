"""A secure cluster under test: replication over TLS and SASL, and a client of its user."""

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from barnabas.testing import Cluster

SOON = 30.0


def test_a_secure_cluster_replicates_and_survives_the_death_of_a_leader() -> None:
    with Cluster(brokers=2, secure=True) as kafka:
        kafka.create_topic("orders", partitions=1)
        producer = Producer({**kafka.client_properties, "acks": "all"})
        producer.produce("orders", b"one")
        assert producer.flush(SOON) == 0
        kafka.kill_unclean(kafka.leader_of("orders", 0))
        producer.produce("orders", b"two")
        assert producer.flush(SOON) == 0
        # A commit would wait for the second replica that the offsets topic is created with.
        settings = {"group.id": "g", "enable.auto.commit": False}
        consumer = Consumer({**kafka.client_properties, **settings})
        consumer.assign([TopicPartition("orders", 0, 0)])
        found = [consumer.poll(SOON) for _ in range(2)]
        consumer.close()
        assert [each.value() for each in found if each is not None] == [b"one", b"two"]


def test_a_client_without_a_login_is_kept_out() -> None:
    with Cluster(brokers=1, secure=True) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=1.0)
