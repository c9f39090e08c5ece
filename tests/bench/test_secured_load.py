"""Prepared requests over TLS and SASL: all are in the log, and a wrong response ends the run."""

from collections.abc import Iterator

import pytest

from barnabas.bench.clusters.bench_topics import log_end_offset
from barnabas.bench.compare.compare_cases import Effort
from barnabas.bench.compare.compare_load import topic
from barnabas.bench.compare.compare_security import PROTOCOLS, secured, secured_cases
from barnabas.bench.compare.compare_sites import HOST, Site, barnabas
from barnabas.bench.limits.load_generator import ConnectionLoad, LoadFailed
from barnabas.bench.limits.load_messages import batch_of, produce
from barnabas.bench.limits.secured_load import drive_secured

LITTLE = Effort(1, 1_000_000, 1.0, 100, 0.0, None)


@pytest.fixture(scope="module", params=PROTOCOLS)
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("secured")
    with secured(request.param, barnabas).start(folder, 1) as running:
        yield running


def test_every_prepared_request_is_in_the_log_once(site: Site) -> None:
    batch = batch_of(1_000)
    with topic(site, 2) as name:
        load = ConnectionLoad(2, 5, 40, 30.0)
        port = site.brokers[0].port
        assert drive_secured(HOST, port, site.login, produce(batch, name), load) > 0
        assert log_end_offset(site.bootstrap, name, 2, **site.login) == 40 * batch.records


def test_a_refused_request_fails_the_run(site: Site) -> None:
    exchange = produce(batch_of(1_000), "absent")
    with pytest.raises(LoadFailed, match="error code 3"):
        drive_secured(
            HOST, site.brokers[0].port, site.login, exchange, ConnectionLoad(1, 5, 10, 30.0)
        )


def test_the_cases_of_a_protocol_have_a_row_in_which_the_client_does_little(site: Site) -> None:
    (case,) = [case for case in secured_cases("SSL") if case.key == "prepared SSL"]
    figures = case.measure(site, LITTLE)
    assert isinstance(figures, tuple)
    assert figures[0] > 0
    (row,) = case.metrics
    assert (row.name, row.goal) == ("produce, SSL, 100 B, requests prepared, 4 connections", 1.5)
