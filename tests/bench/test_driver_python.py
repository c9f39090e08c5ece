"""The drivers in Python keep the contract."""

from importlib.metadata import PackageNotFoundError

import pytest

from barnabas.bench.compare import driver_python
from barnabas.bench.compare.client_driver import Driver, Unavailable
from barnabas.bench.compare.driver_python import aiokafka, kafka_python, librdkafka
from barnabas.bench.drivers.driver_program import MessagesMissing, Spec, Tally
from tests.bench.driver_contract import DriverContract, available


class TestLibrdkafka(DriverContract):
    @pytest.fixture(scope="class")
    @classmethod
    def driver(cls) -> Driver:
        return available(librdkafka())


class TestKafkaPython(DriverContract):
    @pytest.fixture(scope="class")
    @classmethod
    def driver(cls) -> Driver:
        return available(kafka_python())


class TestAiokafka(DriverContract):
    @pytest.fixture(scope="class")
    @classmethod
    def driver(cls) -> Driver:
        return available(aiokafka())


def test_a_missing_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(driver_python, "version", missing)
    found = aiokafka()
    assert isinstance(found, Unavailable)
    assert str(found) == "install it with `pip install aiokafka`"


def test_the_clock_of_a_consumer_starts_when_it_is_assigned_partitions() -> None:
    tally = Tally(Spec("consume", "nowhere", "t", messages=1))
    tally.assigned([])
    with pytest.raises(MessagesMissing):
        tally.answer()
    tally.assigned([0])
    tally.add(1, 10)
    assert tally.answer()["seconds"] >= 0
