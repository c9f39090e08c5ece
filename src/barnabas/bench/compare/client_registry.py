"""The clients that a comparison can measure with, by the names that `--clients` takes."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Final

from barnabas.bench.compare.client_driver import Driver, Unavailable

ALL: Final = "all"
# Where the function is that finds a client; it is imported when that client is asked for.
CLIENTS: Final[Mapping[str, str]] = {
    "librdkafka": "driver_python:librdkafka",
    "Java": "driver_java:java",
    "franz-go": "driver_go:franz_go",
    "kafkajs": "driver_js:kafkajs",
    "aiokafka": "driver_python:aiokafka",
    "kafka-python": "driver_python:kafka_python",
}


def named(text: str) -> list[str]:
    """The clients in a list with commas, or all. Raises ValueError for a name that is unknown."""
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    if ALL in words:
        return list(CLIENTS)
    known = {name.lower(): name for name in CLIENTS}
    for word in words:
        if word not in known:
            raise ValueError(f"no client is called {word!r}: {', '.join(CLIENTS)}, {ALL}")
    if not words:
        raise ValueError(f"name clients: {', '.join(CLIENTS)}, {ALL}")
    return [name for name in CLIENTS if name.lower() in words]


def find(names: Sequence[str]) -> tuple[list[Driver], dict[str, Unavailable]]:
    """Those that can be had here, and why the others cannot. It may fetch and build them."""
    drivers: list[Driver] = []
    missing: dict[str, Unavailable] = {}
    for name in names:
        module, _, function = CLIENTS[name].partition(":")
        search: Callable[[], Driver | Unavailable] = getattr(
            import_module(f"barnabas.bench.{module}"), function
        )
        found = search()
        if isinstance(found, Unavailable):
            missing[name] = found
        else:
            drivers.append(found)
    return drivers, missing
