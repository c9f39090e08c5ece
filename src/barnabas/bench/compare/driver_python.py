"""The clients that are Python packages: librdkafka by confluent-kafka, kafka-python, aiokafka."""

import sys
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from barnabas.bench.compare.client_driver import Driver, Unavailable

_PROGRAMS: Final = "barnabas.bench.drivers"


def librdkafka() -> Driver | Unavailable:
    found = _package("librdkafka", "confluent-kafka", "drive_librdkafka", {"classic", "consumer"})
    if isinstance(found, Unavailable):
        return found
    from confluent_kafka import libversion

    return Driver(found.name, found.command, libversion()[0], protocols=found.protocols)


def kafka_python() -> Driver | Unavailable:
    found = _package("kafka-python", "kafka-python", "drive_kafka_python", {"classic"})
    return found if isinstance(found, Unavailable) else replace(found, may_spin=True)


def aiokafka() -> Driver | Unavailable:
    return _package("aiokafka", "aiokafka", "drive_aiokafka", {"classic"})


def _package(name: str, package: str, program: str, protocols: set[str]) -> Driver | Unavailable:
    try:
        installed = version(package)
    except PackageNotFoundError:
        return Unavailable(f"install it with `pip install {package}`")
    command = (sys.executable, "-m", f"{_PROGRAMS}.{program}")
    return Driver(name, command, installed, protocols=frozenset(protocols))
