"""Consumer groups that commit offsets all the time, so that brokers put their time on records."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, TopicPartition

from tests.support.confluent_client import admin, only_result


@contextmanager
def committing(bootstrap: str, groups: int = 1) -> Iterator[None]:
    """Commit for each group in turns until the end of the block, from before it begins."""
    topic = "committed"
    client = admin.AdminClient({"bootstrap.servers": bootstrap})
    only_result(client.create_topics([admin.NewTopic(topic, 1, 1)]))
    consumers = [
        Consumer({"bootstrap.servers": bootstrap, "group.id": f"committing-{number}"})
        for number in range(groups)
    ]
    ended = threading.Event()

    def commit() -> None:
        for each in consumers:
            each.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)

    def repeat() -> None:
        while not ended.wait(0.05):
            commit()

    repeating = threading.Thread(target=repeat)
    try:
        commit()
        repeating.start()
        yield
    finally:
        ended.set()
        if repeating.ident is not None:
            repeating.join()
        for each in consumers:
            each.close()
