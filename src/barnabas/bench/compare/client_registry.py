"""The clients of `bench compare --clients`, by name."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Final

from barnabas.bench.compare.client_driver import Driver, Unavailable

ALL: Final = "all"
# The function that finds each client; imported on use.
CLIENTS: Final[Mapping[str, str]] = {
    "librdkafka": "driver_python:librdkafka",
    "Java": "driver_java:java",
    "franz-go": "driver_go:franz_go",
    "kafkajs": "driver_js:kafkajs",
    "aiokafka": "driver_python:aiokafka",
    "kafka-python": "driver_python:kafka_python",
}


def named(text: str) -> list[str]:
    """The clients in a comma-separated list, or all. Raises ValueError for an unknown name."""
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    if ALL in words:
        return list(CLIENTS)
    known = {name.lower(): name for name in CLIENTS}
    for word in words:
        if word not in known:
            raise ValueError(f"unknown client {word!r}; expected {', '.join(CLIENTS)} or {ALL}")
    if not words:
        raise ValueError(f"no client given; expected {', '.join(CLIENTS)} or {ALL}")
    return [name for name in CLIENTS if name.lower() in words]


def find(names: Sequence[str]) -> tuple[list[Driver], dict[str, Unavailable]]:
    """The available clients, and why others are not. May fetch and build them."""
    drivers: list[Driver] = []
    missing: dict[str, Unavailable] = {}
    for name in names:
        module, _, function = CLIENTS[name].partition(":")
        search: Callable[[], Driver | Unavailable] = getattr(
            import_module(f"barnabas.bench.compare.{module}"), function
        )
        found = search()
        if isinstance(found, Unavailable):
            missing[name] = found
        else:
            drivers.append(found)
    return drivers, missing
