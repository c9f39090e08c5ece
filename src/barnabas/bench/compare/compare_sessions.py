"""When ZooKeeper last heard of a broker: so much later, or sooner, it notices that the broker died.

A client that has nothing else to say makes itself heard every third of its session's timeout, so
that a killed broker's session lasts for two thirds of the timeout, or all of it: by chance, or by
what the broker had to ask for while it was prepared for a measurement. Who compares outages kills
right after a sign of life.
"""

import re
import socket
import time
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

from barnabas.bench.clusters.bench_topics import PATIENCE_S
from barnabas.bench.clusters.waiting import NotInTime

LOOKS_EVERY_S: Final = 0.005
_SESSION: Final = re.compile(r"^(0x[0-9a-f]+):$")
_RECEIVED: Final = re.compile(r"recved=(\d+),.*sid=(0x[0-9a-f]+),")


def wait_for_sign_of_life(admin: AdminClient, broker_id: int) -> None:
    """Return when ZooKeeper has just heard of a broker. Raises NotInTime."""
    address, _, chroot = _zookeeper_of(admin, broker_id).partition("/")
    owner = _owner(_told(address, b"dump"), f"/{chroot}/brokers/ids/{broker_id}")
    before = _received(_told(address, b"cons"), owner)
    deadline = time.perf_counter() + PATIENCE_S
    while _received(_told(address, b"cons"), owner) == before:
        if time.perf_counter() > deadline:
            raise NotInTime(f"ZooKeeper hears nothing of broker {broker_id}")
        time.sleep(LOOKS_EVERY_S)


def _zookeeper_of(admin: AdminClient, broker_id: int) -> str:
    """Where a broker says that its ZooKeeper is."""
    broker = ConfigResource(ConfigResource.Type.BROKER, str(broker_id))
    config = admin.describe_configs([broker], request_timeout=PATIENCE_S)[broker].result()
    address: str = config["zookeeper.connect"].value
    return address


def _told(address: str, word: bytes) -> str:
    """What a ZooKeeper answers to one of its four letter words."""
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        connection.sendall(word)
        with connection.makefile("rb") as answer:
            return answer.read().decode()


def _owner(dump: str, path: str) -> str:
    """The session that an ephemeral node belongs to."""
    session = ""
    for line in dump.splitlines():
        if begun := _SESSION.match(line):
            session = begun[1]
        elif line.strip() == path:
            return session
    raise NotInTime(f"{path} is not in ZooKeeper")


def _received(connections: str, session: str) -> int:
    """How often a session was heard of."""
    for received, owner in _RECEIVED.findall(connections):
        if owner == session:
            return int(received)
    raise NotInTime(f"session {session} has no connection to ZooKeeper")
