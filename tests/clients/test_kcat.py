"""kcat against a broker, unmodified."""

import pytest

from tests.clients.contract import ClientContract
from tests.support.broker import BrokerProcess
from tests.support.kcat_client import ABSENT, KCAT, KcatClient

pytestmark = pytest.mark.skipif(KCAT is None, reason=ABSENT)


@pytest.fixture(scope="module")
def client(broker: BrokerProcess) -> KcatClient:
    return KcatClient(broker.bootstrap)


class TestKcat(ClientContract):
    pass
