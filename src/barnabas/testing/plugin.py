"""The fixtures that pytest finds by itself: `kafka`, one broker, and `kafka_cluster`, three.

    @pytest.mark.kafka(brokers=5, config={"min.insync.replicas": "2"})
    def test_that_needs_more(kafka_cluster): ...

Nothing of the broker is imported before a test asks for one.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from barnabas.testing.cluster import Cluster

_MARKER = (
    "kafka(brokers=..., config={...}, session_timeout_ms=...): "
    "how many brokers the fixtures kafka and kafka_cluster start, and their properties"
)
_KNOWN = ("brokers", "config", "session_timeout_ms")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator["Cluster"]:
    """One broker of the test's own; `kafka.bootstrap_servers` is where clients begin."""
    yield from _cluster(request, brokers=1)


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator["Cluster"]:
    """Three brokers of the test's own, to be killed, paused and cut off from each other."""
    yield from _cluster(request, brokers=3)


def _cluster(request: pytest.FixtureRequest, brokers: int) -> Iterator["Cluster"]:
    from barnabas.testing.cluster import Cluster

    with Cluster(**{"brokers": brokers, **_wanted(request)}) as cluster:
        yield cluster


def _wanted(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What the markers say, the nearest above those of its class and module."""
    wanted: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("kafka"))):
        wrong = [name for name in marker.kwargs if name not in _KNOWN]
        if marker.args or wrong:
            found = repr(marker.args[0]) if marker.args else wrong[0]
            raise pytest.UsageError(
                f"@pytest.mark.kafka takes {', '.join(f'{name}=' for name in _KNOWN)} "
                f"and not {found}"
            )
        config = {**wanted.get("config", {}), **marker.kwargs.get("config", {})}
        wanted |= {**marker.kwargs, "config": config}
    return wanted
