"""A coroutine that begins at once: it needs no task, unless it has to wait."""

from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


def at_once(making: Coroutine[Any, Any, T]) -> T | Awaitable[T]:
    """Run a coroutine up to its first wait: its result, or an awaitable that does the rest.

    That first part runs in no task of its own: `asyncio.timeout` does not work in it.
    """
    try:
        waits_for = making.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    return _Rest(making, waits_for)


class _Rest(Generator[Any, Any, Any]):
    """A coroutine that waits for the first time."""

    def __init__(self, making: Coroutine[Any, Any, Any], waits_for: object) -> None:
        self._making = making
        self._waits_for = waits_for
        self._is_waiting = False

    def __await__(self) -> Generator[Any, Any, Any]:
        return self

    def send(self, value: object) -> Any:
        if self._is_waiting:
            return self._making.send(value)
        self._is_waiting = True
        return self._waits_for

    def throw(self, *error: Any) -> Any:
        return self._making.throw(*error)
