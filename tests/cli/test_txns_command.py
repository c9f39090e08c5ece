"""`txns` against our broker: a hanging transaction of barnabas.testing is found and aborted."""

import json

import pytest

from barnabas.testing import Cluster, Misuse
from tests.cli.conftest import Barnabas


def test_a_hanging_transaction_is_found_and_aborted(offline: Barnabas) -> None:
    """T45"""
    with Cluster(brokers=1) as kafka:
        kafka.create_topic("payments")
        start = kafka.hang_transaction("payments")
        at = ("-b", kafka.bootstrap_servers)
        where = ("--topic", "payments", "--partition", 0)
        found = offline("txns", "describe-producers", *where, "--json", *at)
        assert f'"current_start_offset": {start}' in found.out.decode()
        search = ("find-hanging", "--topic", "payments", "--max-transaction-timeout", 0, "--json")
        found = offline("txns", *search, *at)
        assert f'"start_offset": {start}' in found.out.decode(), found.err
        ended = offline("txns", "abort", *where, "--start-offset", start, *at)
        assert ended.code == 0, ended.err
        found = offline("txns", "describe-producers", *where, "--json", *at)
        assert '"current_start_offset": null' in found.out.decode()
        assert json.loads(offline("txns", *search, *at).out) == []


def test_a_state_that_transactions_do_not_have_is_refused() -> None:
    with Cluster(brokers=1) as kafka, pytest.raises(Misuse, match="there is no state Asleep"):
        kafka.kill_coordinator("clerk", "Asleep")
