"""The declaration of an attack: its row in the table, its size, and the code that performs it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from barnabas.bench.bench_plan import Say
from barnabas.bench.compare.compare_sites import BrokerProcess, Site

MB: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Happened:
    """The broker's answers in words; `sent_bytes` is what its sockets accepted.

    `facts` are the same in numbers, for the JSON and for tests.
    """

    text: str
    sent_bytes: int = 0
    facts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Target:
    """The attacked cluster, and how much and how long it is attacked."""

    site: Site
    count: int
    hold_s: float  # longest time to wait for a defence, such as a closed connection
    say: Say

    @property
    def broker(self) -> BrokerProcess:
        return self.site.brokers[0]

    @property
    def port(self) -> int:
        return self.broker.port


@dataclass(frozen=True, slots=True)
class Attack:
    """One row. `{count}` in its name is `full`, or `quick` in a quick run."""

    key: str
    name: str
    perform: Callable[[Target], Happened]
    full: int
    quick: int
    hold_s: float = 10.0
    brokers: int = 1
    properties: Mapping[str, str] = field(default_factory=dict)
    is_probed: bool = True  # others are served meanwhile; not while the broker itself is down

    def count(self, *, quick: bool) -> int:
        return self.quick if quick else self.full

    def title(self, *, quick: bool) -> str:
        return self.name.format(count=f"{self.count(quick=quick):,}")
