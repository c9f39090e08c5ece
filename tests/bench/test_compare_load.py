"""The messages counted for a load are in the log."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from barnabas.bench.clusters.bench_topics import log_end_offset
from barnabas.bench.compare import compare_load
from barnabas.bench.compare.compare_load import AT_ONCE, ClientLoad, produce, topic
from barnabas.bench.compare.compare_sites import Site
from barnabas.bench.limits.clients_bench import RecordsMissing
from barnabas.bench.server_processes import broker


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with broker(tmp_path_factory.mktemp("load")) as running:
        yield Site(running.bootstrap)


@pytest.mark.parametrize(
    "load",
    [
        ClientLoad(partitions=2, acks=0),
        ClientLoad(partitions=2, acks=-1, idempotent=True),
        ClientLoad(partitions=2, codec="lz4", producers=3),
    ],
    ids=lambda load: load.name,
)
def test_all_messages_are_in_the_log_when_the_clock_stops(site: Site, load: ClientLoad) -> None:
    with topic(site, load.partitions) as name:
        sent, seconds = produce(site, name, load, 2_000_000)
        assert log_end_offset(site.bootstrap, name, load.partitions) == sent
    assert sent * load.record_bytes >= 1_999_000
    assert seconds > 0


def test_all_partitions_get_the_same_number_even_with_a_full_queue(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare_load, "QUEUED", AT_ONCE + AT_ONCE // 3)
    load = ClientLoad(partitions=4)
    with topic(site, load.partitions) as name:
        produce(site, name, load, 10_000_000)
        before = [log_end_offset(site.bootstrap, name, n) for n in range(load.partitions + 1)]
    each = [after - end for end, after in pairwise(before)]
    assert max(each) - min(each) <= AT_ONCE


def test_a_log_with_other_contents_fails_the_run(site: Site) -> None:
    with topic(site, 1) as name:
        sent, _ = produce(site, name, ClientLoad(partitions=1), 600_000)
        said = f"{sent} messages were sent, {2 * sent} are in the log"
        with pytest.raises(RecordsMissing, match=said):
            produce(site, name, ClientLoad(partitions=1), 600_000)
