"""confluent-kafka (librdkafka) against a broker, unmodified."""

import pytest

from tests.clients.contract import AdminContract, LibraryContract
from tests.support.broker import BrokerProcess
from tests.support.confluent_client import ConfluentAdmin, ConfluentClient


@pytest.fixture(scope="module")
def client(broker: BrokerProcess) -> ConfluentClient:
    return ConfluentClient(broker.bootstrap)


@pytest.fixture(scope="module")
def admin(broker: BrokerProcess) -> ConfluentAdmin:
    return ConfluentAdmin(broker.bootstrap)


class TestConfluentClient(LibraryContract):
    pass


class TestConfluentAdmin(AdminContract):
    pass
