"""One broker for all tests of a file that do not mind the topics of others."""

from collections.abc import Iterator

import pytest

from tests.server.admin.client import Client
from tests.server.admin.running import Running, broker


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with broker(tmp_path_factory.mktemp("shared")) as running:
        yield running


@pytest.fixture
def client(shared: Running) -> Iterator[Client]:
    with shared.client() as connected:
        yield connected
