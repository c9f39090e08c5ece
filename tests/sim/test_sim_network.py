"""The simulated network: asyncio connections and network faults."""

import asyncio
from collections.abc import Coroutine, Iterator
from random import Random
from typing import Any, TypeVar

import pytest

from barnabas.sim.world.sim_loop import Host, SimLoop
from barnabas.sim.world.sim_network import SimNetwork

T = TypeVar("T")
PORT = 9092


class ReadingProtocol(asyncio.Protocol):
    """Records received data and the end of the connection."""

    def __init__(self, echo: bool = False) -> None:
        self.heard = b""
        self.pieces = 0
        self.ended: list[Exception | None] = []
        self.is_blocked = False
        self._echo = echo
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.heard += data
        self.pieces += 1
        if self._echo:
            self.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.append(exc)

    def pause_writing(self) -> None:
        self.is_blocked = True

    def resume_writing(self) -> None:
        self.is_blocked = False


class Buffered(asyncio.BufferedProtocol):
    """Reads through a buffer of three bytes."""

    def __init__(self) -> None:
        self.buffer = bytearray(3)
        self.heard = b""

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.heard += self.buffer[:nbytes]


class Two:
    """A server and a client, each on its host."""

    def __init__(self, seed: int = 1) -> None:
        self.loop = SimLoop()
        self.network = self.loop.network = SimNetwork(self.loop, Random(seed))
        self.server = self.loop.boot("server")
        self.client = self.loop.boot("client")
        self.served: list[ReadingProtocol] = []

    def run(self, work: Coroutine[Any, Any, T], host: Host | None = None) -> T:
        return self.loop.run_until_complete(self.loop.spawn(host, work))

    def sleep(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))

    def listen(self, echo: bool = False) -> None:
        def made() -> ReadingProtocol:
            self.served.append(ReadingProtocol(echo))
            return self.served[-1]

        self.run(self.loop.create_server(made, "server", PORT), self.server)

    def connect(self) -> ReadingProtocol:
        _, protocol = self.run(
            self.loop.create_connection(ReadingProtocol, "server", PORT), self.client
        )
        assert isinstance(protocol, ReadingProtocol)
        return protocol


@pytest.fixture
def two() -> Iterator[Two]:
    two = Two()
    yield two
    two.loop.close()


def test_bytes_arrive_complete_and_in_order_in_arbitrary_pieces(two: Two) -> None:
    two.listen(echo=True)
    client = two.connect()
    sent = b"".join(number.to_bytes(2, "big") * (1 + number % 7) for number in range(500))
    for start in range(0, len(sent), 10):
        client.transport.write(sent[start : start + 10])
    client.transport.writelines([b"the", b"end"])
    two.sleep(1)
    assert two.served[0].heard == client.heard == sent + b"theend"
    assert client.transport.get_extra_info("peername") == ("server", PORT)
    assert two.served[0].transport.get_extra_info("peername")[0] == "client"


def test_a_buffered_protocol_gets_all_bytes(two: Two) -> None:
    heard: list[Buffered] = []

    def made() -> Buffered:
        heard.append(Buffered())
        return heard[-1]

    two.run(two.loop.create_server(made, "server", PORT), two.server)
    two.connect().transport.write(b"more than three bytes")
    two.sleep(1)
    assert heard[0].heard == b"more than three bytes"


def test_a_seed_is_deterministic(two: Two) -> None:
    def history(seed: int) -> list[tuple[float, int]]:
        world, arrived = Two(seed), []
        world.network.on_arrival = lambda *told: arrived.append((world.loop.time(), len(told[2])))
        world.listen(echo=True)
        client = world.connect()
        for _ in range(100):
            client.transport.write(b"some bytes")
            world.sleep(0.01)
        world.loop.close()
        return arrived

    assert history(1) == history(1)
    assert history(1) != history(2)


def test_a_connection_without_a_listener_is_refused(two: Two) -> None:
    with pytest.raises(ConnectionRefusedError):
        two.connect()


def test_an_address_is_bound_once_and_only_by_its_host(two: Two) -> None:
    two.listen()
    with pytest.raises(OSError, match="in use"):
        two.listen()
    with pytest.raises(OSError, match="assign"):
        two.run(two.loop.create_server(ReadingProtocol, "client", PORT), two.server)


def test_data_written_before_close_arrives(two: Two) -> None:
    two.listen()
    client = two.connect()
    client.transport.write(b"last words")
    client.transport.close()
    two.sleep(1)
    assert two.served[0].heard == b"last words"
    assert two.served[0].ended == client.ended == [None]


def test_a_peer_that_does_not_read_blocks_the_writer(two: Two) -> None:
    two.listen()
    client = two.connect()
    two.sleep(1)
    two.served[0].transport.pause_reading()
    for _ in range(100):
        client.transport.write(bytes(10_000))
        two.sleep(0.01)
    assert (client.is_blocked, two.served[0].heard) == (True, b"")
    two.served[0].transport.resume_reading()
    two.sleep(1)
    assert client.is_blocked is False
    assert len(two.served[0].heard) == 1_000_000


def test_data_sent_into_a_partition_arrives_after_it_heals(two: Two) -> None:
    two.listen(echo=True)
    client = two.connect()
    two.network.cut("client", "server")
    client.transport.write(b"hello")
    two.sleep(3)
    assert not two.served[0].heard
    two.network.heal()
    two.sleep(3)
    assert client.heard == b"hello"
    assert not client.ended


def test_a_one_way_partition_does_not_block_the_other_direction(two: Two) -> None:
    two.listen(echo=True)
    client = two.connect()
    two.network.cut("server", "client", both=False)
    client.transport.write(b"hello")
    two.sleep(3)
    assert two.served[0].heard == b"hello"
    assert not client.heard


def test_a_kernel_gives_up_alone_and_the_other_side_learns_when_it_sends(two: Two) -> None:
    two.listen()
    client = two.connect()
    two.sleep(1)
    two.network.cut("client", "server")
    client.transport.write(b"hello")
    two.sleep(30)
    assert [type(error) for error in client.ended] == [TimeoutError]
    assert not two.served[0].ended
    two.network.heal()
    two.sleep(5)
    assert not two.served[0].heard
    two.served[0].transport.write(b"are you there?")
    two.sleep(1)
    assert [type(error) for error in two.served[0].ended] == [ConnectionResetError]


def test_connecting_through_a_partition_fails(two: Two) -> None:
    two.listen()
    two.network.cut("server", "client", both=False)
    with pytest.raises(TimeoutError):
        two.connect()
    two.network.heal()
    two.connect()


def test_a_process_that_dies_resets_its_connections_and_refuses_new_ones(two: Two) -> None:
    two.listen()
    client = two.connect()
    two.loop.crash("server")
    two.network.crash("server", silently=False)
    two.sleep(1)
    assert [type(error) for error in client.ended] == [ConnectionResetError]
    with pytest.raises(ConnectionRefusedError):
        two.connect()


def test_a_machine_that_dies_is_silent_and_resets_when_it_is_up_again(two: Two) -> None:
    two.listen()
    client, other = two.connect(), two.connect()
    two.loop.crash("server")
    two.network.crash("server", silently=True)
    two.sleep(60)
    assert not client.ended
    client.transport.write(b"hello?")
    two.sleep(30)
    assert [type(error) for error in client.ended] == [TimeoutError]
    with pytest.raises(TimeoutError):
        two.connect()
    two.network.up("server")
    other.transport.write(b"hello?")
    two.sleep(1)
    assert [type(error) for error in other.ended] == [ConnectionResetError]


def test_a_paused_host_accepts_connections_and_bytes_but_does_not_answer(two: Two) -> None:
    two.listen(echo=True)
    two.loop.pause("server")
    client = two.connect()
    client.transport.write(b"hello")
    two.sleep(60)
    assert client.heard != b"hello"
    two.loop.resume("server")
    two.sleep(1)
    assert client.heard == b"hello"


def test_a_slow_link_delays_data(two: Two) -> None:
    two.listen()
    client = two.connect()
    two.network.slow("client", "server", 1_000)
    client.transport.write(bytes(5_000))
    two.sleep(2.5)
    assert len(two.served[0].heard) < 5_000
    two.sleep(3)
    assert len(two.served[0].heard) == 5_000


def test_lost_packets_arrive_late(two: Two) -> None:
    two.listen()
    client = two.connect()
    two.network.lose("client", "server", 1.0)
    client.transport.write(b"hello")
    two.sleep(0.1)
    assert two.served[0].heard != b"hello"
    two.sleep(3)
    assert two.served[0].heard == b"hello"


def test_reset_closes_all_connections_between_two_hosts(two: Two) -> None:
    two.listen()
    client = two.connect()
    assert two.network.reset("client", "server") == 1
    two.sleep(1)
    assert len(client.ended) == len(two.served[0].ended) == 1
