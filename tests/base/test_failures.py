"""The failure channel: failures are recorded at once and delivered in the next turn."""

import asyncio
from collections.abc import Sequence

from barnabas.base.errors import DiskFault, LawBroken
from barnabas.base.failures import FailureChannel

ONE, TWO = (DiskFault(folder, OSError("died")) for folder in ("one", "two"))


def test_the_faults_of_one_turn_are_delivered_together_in_the_next() -> None:
    async def scenario() -> None:
        received: list[Sequence[DiskFault]] = []
        channel = FailureChannel(asyncio.get_running_loop())
        channel.deliver_to(received.append)
        channel.disk_failed(ONE)
        channel.disk_failed(TWO)
        assert received == []
        assert len(channel.pending) == 2
        await asyncio.sleep(0)
        assert received == [[ONE, TWO]]
        assert len(channel.pending) == 0
        channel.disk_failed(TWO)
        await asyncio.sleep(0)
        assert received == [[ONE, TWO], [TWO]]

    asyncio.run(scenario())


def test_a_fault_that_the_receiver_itself_meets_is_delivered_one_turn_later() -> None:
    async def scenario() -> None:
        received: list[DiskFault] = []
        channel = FailureChannel(asyncio.get_running_loop())

        def receive(faults: Sequence[DiskFault]) -> None:
            received.extend(faults)
            if faults[0] is ONE:
                channel.disk_failed(TWO)

        channel.deliver_to(receive)
        channel.disk_failed(ONE)
        await asyncio.sleep(0)
        assert received == [ONE]
        await asyncio.sleep(0)
        assert received == [ONE, TWO]

    asyncio.run(scenario())


def test_a_fault_from_before_there_is_a_receiver_is_not_lost() -> None:
    async def scenario() -> None:
        received: list[Sequence[DiskFault]] = []
        channel = FailureChannel(asyncio.get_running_loop())
        channel.disk_failed(ONE)
        await asyncio.sleep(0)
        channel.deliver_to(received.append)
        await asyncio.sleep(0)
        assert received == [[ONE]]

    asyncio.run(scenario())


def test_the_first_fatal_error_is_the_one_that_stops_the_broker() -> None:
    async def scenario() -> None:
        channel = FailureChannel(asyncio.get_running_loop())
        assert not channel.fatal_error.done()
        first = LawBroken("LOG-1")
        channel.fatal(first)
        channel.fatal(LawBroken("LOG-2"))
        assert await channel.fatal_error is first

    asyncio.run(scenario())


def test_a_law_that_the_receiver_breaks_stops_the_broker() -> None:
    async def scenario() -> None:
        broken = LawBroken("REP-3")

        def receive(_: Sequence[DiskFault]) -> None:
            raise broken

        channel = FailureChannel(asyncio.get_running_loop())
        channel.deliver_to(receive)
        channel.disk_failed(ONE)
        await asyncio.sleep(0)
        assert channel.fatal_error.done()
        assert channel.fatal_error.result() is broken

    asyncio.run(scenario())
