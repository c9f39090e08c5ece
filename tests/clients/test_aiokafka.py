"""aiokafka against a broker, unmodified."""

import pytest

from tests.clients.contract import AdminContract, LibraryContract
from tests.support.aiokafka_client import AiokafkaAdmin, AiokafkaClient
from tests.support.broker import BrokerProcess


@pytest.fixture(scope="module")
def client(broker: BrokerProcess) -> AiokafkaClient:
    return AiokafkaClient(broker.bootstrap)


@pytest.fixture(scope="module")
def admin(broker: BrokerProcess) -> AiokafkaAdmin:
    return AiokafkaAdmin(broker.bootstrap)


class TestAiokafkaClient(LibraryContract):
    pass


class TestAiokafkaAdmin(AdminContract):
    pass
