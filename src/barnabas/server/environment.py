"""The environment of a broker: what differs between a machine and a simulation of one.

The network and the passing of time come with the event loop.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from barnabas.base.clock import Clock, Stopwatch, machine_stopwatch
from barnabas.base.offload import Offload
from barnabas.base.randomness import Random
from barnabas.base.safeguards import Safeguards
from barnabas.disk.disk import Disk
from barnabas.server.network.connection_ports import Serve
from barnabas.znodes.tree import Coordination


class Interception(Protocol):
    """The faults of requests that a test sets."""

    def around(self, serve: Serve) -> Serve:
        """The server of requests in place of `serve`, which it may ask."""

    def marker_delay_s(self) -> float:
        """How long a marker waits that needs no request."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Given to a broker when it is started.

    `coordination` begins a session with a tree that several brokers of one process share; without
    it the configuration says which tree to use. `intercept` stands between connections and what
    serves their requests, and may answer itself. `is_process` for a broker that is
    a process of its own: it watches the turns of its loop, and accepts connections itself.
    """

    clock: Clock
    random: Random
    offload: Offload
    disk: Callable[[str], Disk]
    coordination: Callable[[], Coordination] | None = None
    safeguards: Safeguards = field(default_factory=Safeguards)
    stopwatch: Stopwatch = machine_stopwatch
    intercept: Interception | None = None
    is_process: bool = False
