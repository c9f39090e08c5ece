"""Bounds on what goes on at once: live views, searches, filters, attempts to sign in.

Each lasts as long as a browser likes, so a console without bounds serves whoever opens the most.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from ipaddress import ip_address, ip_network
from typing import Final

from barnabas.base.errors import BarnabasError

_IN_LINE: Final = 10  # attempts of one address
_OF_ALL: Final = 100
_IPV6_NETWORK: Final = 64  # bits: the addresses of one machine


class Crowded(BarnabasError):
    """There is no place left; the text says of what."""


class Places:
    """A bounded number of places; each is taken as long as something goes on."""

    def __init__(self, most: int, things: str) -> None:
        self._most = most
        self._things = things
        self.free = most

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Raises Crowded"""
        if not self.free:
            raise Crowded(
                f"{self._most} {self._things} are open at this console, as many as it serves at"
                " once; try again later"
            )
        self.free -= 1
        try:
            yield
        finally:
            self.free += 1


class Attempts:
    """Attempts to sign in: those of one address one after the other, and a bounded number waiting.

    A wrong one keeps its turn for half a second, so an address has two guesses a second.
    """

    def __init__(self) -> None:
        self._present = Counter[str]()
        self._turns: dict[str, asyncio.Lock] = {}

    @contextlib.asynccontextmanager
    async def turn(self, address: str) -> AsyncIterator[None]:
        """Wait until no other attempt of this address goes on. Raises Crowded."""
        machine = _machine(address)
        if self._present[machine] >= _IN_LINE or self._present.total() >= _OF_ALL:
            raise Crowded("Too many attempts to sign in at once; try again in a moment")
        self._present[machine] += 1
        try:
            async with self._turns.setdefault(machine, asyncio.Lock()):
                yield
        finally:
            self._present[machine] -= 1
            if not self._present[machine]:
                del self._present[machine], self._turns[machine]


def _machine(address: str) -> str:
    """The address, or the network of IPv6 addresses that one machine has."""
    try:
        if ip_address(address).version == 4:
            return address
    except ValueError:
        return address
    return str(ip_network((address, _IPV6_NETWORK), strict=False))
