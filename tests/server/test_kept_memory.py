"""Memory that was freed is returned to the system after the broker has grown."""

import asyncio

from barnabas.base.freed_memory import OwnMemory
from barnabas.base.offload import InlineOffload
from barnabas.server.maintenance.kept_memory import MOST_LOOKS_BETWEEN, KeptMemory

MB = 1024 * 1024


class Process(OwnMemory):
    """A process whose C library keeps what is freed."""

    def __init__(self) -> None:
        self.own: int | None = 30 * MB
        self.freed = 0
        self.tried = 0
        self.kept = KeptMemory(InlineOffload(), self)

    def used(self) -> int | None:
        return self.own

    def give_back(self) -> None:
        self.tried += 1
        assert self.own is not None
        self.own, self.freed = self.own - self.freed, 0

    def look(self, times: int = 1) -> int:
        """The attempts to return memory in so many looks."""
        before = self.tried
        for _ in range(times):
            asyncio.run(self.kept.look())
        return self.tried - before


def test_a_process_that_has_not_grown_is_left_alone() -> None:
    process = Process()
    assert process.look(10) == 0
    process.own = 40 * MB
    assert process.look(10) == 0


def test_what_was_freed_is_returned() -> None:
    process = Process()
    process.look()
    process.own, process.freed = 230 * MB, 190 * MB
    process.look()
    assert process.own == 40 * MB


def test_memory_in_use_is_tried_ever_less_often_until_it_is_freed() -> None:
    process = Process()
    process.look()
    process.own = 230 * MB
    assert process.look(MOST_LOOKS_BETWEEN) < 7
    assert process.look(4 * MOST_LOOKS_BETWEEN) <= 4
    process.own, process.freed = 200 * MB, 170 * MB
    process.look()
    assert process.own == 30 * MB


def test_nothing_is_done_where_nobody_knows_the_memory() -> None:
    process = Process()
    process.own = None
    assert process.look(3) == 0


def test_the_memory_of_this_process_is_known_or_not() -> None:
    own = OwnMemory().used()
    assert own is None or own > MB
