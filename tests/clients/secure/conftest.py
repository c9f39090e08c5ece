"""One broker for all clients, with a listener for each way to authenticate."""

from collections.abc import Iterator

import pytest

from tests.support.secure_broker import SecureBroker, secure_broker


@pytest.fixture(scope="package")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with secure_broker(tmp_path_factory.mktemp("secure")) as broker:
        yield broker
