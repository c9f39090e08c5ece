"""The time of a broker's last ZooKeeper heartbeat, which determines when its death is detected.

An idle client sends a heartbeat every third of its session timeout, so a killed broker's session
lasts between two thirds of the timeout and all of it. To compare outages, brokers are killed right
after a heartbeat.
"""

import re
import socket
import time
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

from barnabas.bench.clusters.bench_topics import PATIENCE_S
from barnabas.bench.clusters.waiting import WaitTimedOut

LOOKS_EVERY_S: Final = 0.005
_SESSION: Final = re.compile(r"^(0x[0-9a-f]+):$")
_RECEIVED: Final = re.compile(r"recved=(\d+),.*sid=(0x[0-9a-f]+),")


def wait_for_sign_of_life(admin: AdminClient, broker_id: int) -> None:
    """Wait until ZooKeeper has just received a heartbeat of a broker. Raises WaitTimedOut."""
    address, _, chroot = _zookeeper_of(admin, broker_id).partition("/")
    owner = _owner(_told(address, b"dump"), f"/{chroot}/brokers/ids/{broker_id}")
    before = _received(_told(address, b"cons"), owner)
    deadline = time.perf_counter() + PATIENCE_S
    while _received(_told(address, b"cons"), owner) == before:
        if time.perf_counter() > deadline:
            raise WaitTimedOut(f"no heartbeat of broker {broker_id} in ZooKeeper")
        time.sleep(LOOKS_EVERY_S)


def _zookeeper_of(admin: AdminClient, broker_id: int) -> str:
    """The ZooKeeper address in a broker's configs."""
    broker = ConfigResource(ConfigResource.Type.BROKER, str(broker_id))
    config = admin.describe_configs([broker], request_timeout=PATIENCE_S)[broker].result()
    address: str = config["zookeeper.connect"].value
    return address


def _told(address: str, word: bytes) -> str:
    """ZooKeeper's answer to a four letter word."""
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        connection.sendall(word)
        with connection.makefile("rb") as answer:
            return answer.read().decode()


def _owner(dump: str, path: str) -> str:
    """The session of an ephemeral node."""
    session = ""
    for line in dump.splitlines():
        if begun := _SESSION.match(line):
            session = begun[1]
        elif line.strip() == path:
            return session
    raise WaitTimedOut(f"{path} is not in ZooKeeper")


def _received(connections: str, session: str) -> int:
    """The number of packets received from a session."""
    for received, owner in _RECEIVED.findall(connections):
        if owner == session:
            return int(received)
    raise WaitTimedOut(f"session {session} has no connection to ZooKeeper")
