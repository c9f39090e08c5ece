"""Connection quotas: numbers and rates of connections, of a broker and of its listeners (S41)."""

import asyncio
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.base.errors import ConfigError
from barnabas.config.broker_config import BrokerConfig
from barnabas.server.network.connection_quotas import ConnectionQuotas
from barnabas.server.network.open_connections import OpenConnections
from barnabas.server.settings import limits
from barnabas.wire.apis import ApiKey
from tests.server.api_requests import of
from tests.server.raw import Insight, RawClient, until, with_broker
from tests.server.test_authorization import ask

INSIDE, OUTSIDE = "INSIDE", "OUTSIDE"
TWO = {
    "listeners": "INSIDE://:9092,OUTSIDE://:9093",
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    "inter.broker.listener.name": INSIDE,
    "log.dirs": "/nowhere",
}


def quotas(**properties: str) -> ConnectionQuotas:
    return ConnectionQuotas(limits(config(**properties)))


def config(**properties: str) -> BrokerConfig:
    return BrokerConfig(TWO | {name.replace("_", "."): text for name, text in properties.items()})


def test_s41_the_listener_of_brokers_is_not_shut_by_clients() -> None:
    counted = quotas(max_connections="2")
    assert counted.add("a", OUTSIDE) is None
    assert counted.add("b", OUTSIDE) is None
    assert counted.add("c", OUTSIDE) == "max.connections=2 is reached"
    assert counted.add("d", INSIDE) is None
    alone = ConnectionQuotas(limits(BrokerConfig({"max.connections": "0", "log.dirs": "/x"})))
    assert alone.add("a", "PLAINTEXT") is not None


def test_s41_a_listener_has_a_limit_of_its_own() -> None:
    counted = quotas(listener_name_outside_max_connections="1")
    assert counted.add("a", OUTSIDE) is None
    assert "of listener OUTSIDE" in (counted.add("a", OUTSIDE) or "")
    counted.remove("a", OUTSIDE)
    counted.remove("a", OUTSIDE)
    assert counted.add("a", OUTSIDE) is None


def test_s41_a_broker_that_connects_takes_the_place_of_the_client_used_least_recently() -> None:
    closed: list[str] = []

    class Connected:
        is_closing = False

        def __init__(self, host: str, listener: str, last_active: float) -> None:
            self.host, self.listener, self.last_active = host, listener, last_active

        def now(self) -> float:
            return 0.0

        def close(self, why: str) -> None:
            assert "max.connections" in why
            self.is_closing = True
            closed.append(self.host)

    connection: Any = Connected
    timer: Any = SimpleNamespace(add=lambda *_: True, cancel=lambda _: None)
    opened = OpenConnections(quotas(max_connections="3"), timer)
    for name, active in (("a", 3.0), ("b", 1.0), ("c", 2.0)):
        assert opened.admit(connection(name, OUTSIDE, active)) is None
    assert opened.admit(connection("d", OUTSIDE, 0.0)) is not None
    assert not closed
    refused = next(each for each in opened._idle_watches if each.host == "d")
    opened.lost(refused)
    for number in range(3):
        assert opened.admit(connection(f"broker {number}", INSIDE, 0.0)) is None
    assert closed == ["b", "c", "a"]


def test_s41_connections_beyond_a_rate_wait_at_most_one_window() -> None:
    counted = quotas(max_connection_creation_rate="1", listener_name_inside_max_connections="9")
    assert [counted.delay_ms(OUTSIDE, 0.0) for _ in range(10)] == [0] * 10
    assert counted.delay_ms(OUTSIDE, 0.0) == 1000
    # The limit of all listeners is not for that of brokers, which may have one of its own.
    assert counted.delay_ms(INSIDE, 0.0) == 0
    own = quotas(listener_name_inside_max_connection_creation_rate="1")
    assert [own.delay_ms(INSIDE, 0.0) for _ in range(11)][-1] == 1000
    assert own.delay_ms(OUTSIDE, 0.0) == 0


async def is_served(client: RawClient) -> bool:
    try:
        return bool((await ask(client, ApiKey.METADATA, of(topics=()))).brokers)
    except (ConnectionError, asyncio.IncompleteReadError):
        return False


def test_s41_limits_change_while_a_broker_runs(tmp_path: Path) -> None:
    async def scenario(broker: Insight) -> None:
        first = await broker.connect()
        second = await broker.connect()
        assert (await ask(first, ApiKey.METADATA, of(topics=()))).brokers
        assert await second.is_closed()
        name = "listener.name.plaintext.max.connections"
        wanted = of(name=name, config_operation=0, value="2")
        changed = of(resource_type=4, resource_name="0", configs=(wanted,))
        answer = await ask(first, ApiKey.INCREMENTAL_ALTER_CONFIGS, of(resources=(changed,)))
        assert answer.responses[0].error_code == 0, answer
        async with asyncio.timeout(20):
            while not await is_served(await broker.connect()):
                pass

    with_broker(tmp_path, scenario, listener_name_plaintext_max_connections=1)


async def later() -> None:
    """Return when the clock of the loop shows another time."""
    loop = asyncio.get_running_loop()
    now = loop.time()
    await until(lambda: loop.time() > now)


def test_s41_connections_used_least_recently_close_when_their_number_is_lowered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def scenario(broker: Insight) -> None:
        clients = [await broker.connect() for _ in range(4)]
        for client in (clients[2], clients[0], clients[3], clients[1]):
            assert await is_served(client)
            await later()
        wanted = of(name="max.connections", config_operation=0, value="2")
        changed = of(resource_type=4, resource_name="0", configs=(wanted,))
        answer = await ask(clients[1], ApiKey.INCREMENTAL_ALTER_CONFIGS, of(resources=(changed,)))
        assert answer.responses[0].error_code == 0, answer
        assert await clients[2].is_closed()
        assert await clients[0].is_closed()
        assert await is_served(clients[3])
        assert await is_served(clients[1])
        assert len(broker.connections) == 2

    with_broker(tmp_path, scenario)
    assert sum("max.connections=2 is exceeded" in line for line in caplog.messages) == 2


@pytest.mark.parametrize(
    ("name", "why"), [("INSIDE", "different value from the inter"), ("OTHER", "advertised")]
)
def test_s3_the_listener_of_controllers_is_advertised_and_not_that_of_brokers(
    name: str, why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        config(control_plane_listener_name=name)
    config(control_plane_listener_name="outside")
