"""What the clients' tests share: an admin to prepare topics, for clients that have none."""

import pytest

from tests.support.broker import BrokerProcess
from tests.support.clients import Admin
from tests.support.confluent_client import ConfluentAdmin

pytest.register_assert_rewrite("tests.clients.contract")


@pytest.fixture(scope="session")
def some_admin(broker: BrokerProcess) -> Admin:
    return ConfluentAdmin(broker.bootstrap)
