"""Fixtures of the client tests: an admin to create topics."""

import pytest

from tests.support.broker import BrokerProcess
from tests.support.clients import Admin
from tests.support.confluent_client import ConfluentAdmin

pytest.register_assert_rewrite("tests.clients.contract")


@pytest.fixture(scope="session")
def some_admin(broker: BrokerProcess) -> Admin:
    return ConfluentAdmin(broker.bootstrap)
