"""A background producer, at a rate far below saturation."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.bench.clusters.bench_topics import PATIENCE_S, client_settings
from barnabas.bench.compare.compare_load import AT_ONCE, ClientLoad
from barnabas.bench.compare.compare_sites import Site
from barnabas.bench.limits.rdkafka_ctypes import LeanProducer, Values


@contextmanager
def paced_writer(site: Site, name: str, load: ClientLoad, per_second: int) -> Iterator[None]:
    """Send messages at a steady rate, to each partition in turn, until the end of the block."""
    over = threading.Event()
    values = Values(AT_ONCE, load.record_bytes)
    with LeanProducer(client_settings(site.bootstrap, acks=1), name) as producer:
        producer.connect(PATIENCE_S)

        def write() -> None:
            turn = 0
            while not over.wait(AT_ONCE / per_second):
                producer.hand_over(load.target(turn), values, 0)
                turn += 1
            producer.flush(PATIENCE_S)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            yield
        finally:
            over.set()
            writer.join()
