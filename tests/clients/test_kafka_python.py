"""kafka-python against a broker, unmodified."""

from collections.abc import Iterator

import pytest

from tests.clients.contract import AdminContract, LibraryContract
from tests.support.broker import BrokerProcess
from tests.support.kafka_python_client import KafkaPythonAdmin, KafkaPythonClient


@pytest.fixture(scope="module")
def client(broker: BrokerProcess) -> KafkaPythonClient:
    return KafkaPythonClient(broker.bootstrap)


@pytest.fixture(scope="module")
def admin(broker: BrokerProcess) -> Iterator[KafkaPythonAdmin]:
    admin = KafkaPythonAdmin(broker.bootstrap)
    yield admin
    admin.client.close()


class TestKafkaPythonClient(LibraryContract):
    pass


class TestKafkaPythonAdmin(AdminContract):
    pass
