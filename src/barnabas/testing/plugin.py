"""The pytest plugin: the fixtures `kafka`, one broker, and `kafka_cluster`, three.

    @pytest.mark.kafka(brokers=5, config={"min.insync.replicas": "2"})
    def test_that_needs_more(kafka_cluster): ...

The broker's code is imported only when a test uses a fixture.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from barnabas.testing.cluster import Cluster

_MARKER = (
    "kafka(brokers=..., config={...}, session_timeout_ms=...): "
    "the number of brokers that the fixtures kafka and kafka_cluster start, and their properties"
)
_KNOWN = ("brokers", "config", "session_timeout_ms")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator["Cluster"]:
    """A cluster of one broker; clients connect to `kafka.bootstrap_servers`."""
    yield from _cluster(request, brokers=1)


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator["Cluster"]:
    """A cluster of three brokers, which the test can kill, pause and partition."""
    yield from _cluster(request, brokers=3)


def _cluster(request: pytest.FixtureRequest, brokers: int) -> Iterator["Cluster"]:
    from barnabas.testing.cluster import Cluster

    with Cluster(**{"brokers": brokers, **_wanted(request)}) as cluster:
        yield cluster


def _wanted(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The arguments of the markers; a test's override those of its class and module."""
    wanted: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("kafka"))):
        wrong = [name for name in marker.kwargs if name not in _KNOWN]
        if marker.args or wrong:
            found = repr(marker.args[0]) if marker.args else wrong[0]
            raise pytest.UsageError(
                f"@pytest.mark.kafka accepts {', '.join(f'{name}=' for name in _KNOWN)} "
                f"and not {found}"
            )
        config = {**wanted.get("config", {}), **marker.kwargs.get("config", {})}
        wanted |= {**marker.kwargs, "config": config}
    return wanted
