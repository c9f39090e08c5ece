"""Free TCP ports for servers that bind them a moment later, or again after a restart."""

import os
import socket
from typing import Final

from barnabas.base.randomness import Random

# Below what systems give to connections that go out: there a port is taken by chance at any moment.
FIRST: Final = 15_000
LAST: Final = 32_000
_ATTEMPTS: Final = 200
# Ports to choose from, as "first-last": processes side by side, such as those that share the work
# of a test run, each get their own. A server that is down for a moment would lose its port else.
RANGE: Final = "BARNABAS_PORTS"
# Ports that this process was given: their servers may not listen yet, or be down for a moment.
_GIVEN: Final[set[int]] = set()


def free_port(host: str = "127.0.0.1", random: Random | None = None) -> int:
    """A free port outside the range of outgoing connections; never the same one twice."""
    source = random or Random()
    first, last = _range()
    for _ in range(_ATTEMPTS):
        port = first + source.below(last - first)
        if port not in _GIVEN and is_free(host, port):
            _GIVEN.add(port)
            return port
    with socket.socket() as probe:
        probe.bind((host, 0))
        found: int = probe.getsockname()[1]
        return found


def _range() -> tuple[int, int]:
    first, _, last = os.environ.get(RANGE, "").partition("-")
    return (int(first), int(last)) if first.isdigit() and last.isdigit() else (FIRST, LAST)


def is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def bind_and_close(host: str, port: int) -> None:
    """Bind an address, every interface if `host` is empty. Raises OSError if that is impossible."""
    for family, kind, protocol, _, address in socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    ):
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind(address)
