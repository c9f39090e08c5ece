"""Handling of Ctrl-C and SIGTERM in a long run, so that its figures are not lost."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

_ENDING: Final = (signal.SIGINT, signal.SIGTERM)
_Handler = Callable[[int, FrameType | None], object]


@contextmanager
def signalled_once() -> Iterator[None]:
    """The first signal raises KeyboardInterrupt in the block; later ones do not interrupt the
    cleanup."""
    before = _handlers()

    def stop(number: int, frame: FrameType | None) -> None:
        for each in _ENDING:
            signal.signal(each, signal.SIG_IGN)
        if callable(handler := before[number]):
            handler(number, frame)
        raise KeyboardInterrupt

    with _handled_by(stop):
        yield


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Defer signals until the end of the block."""
    came: list[int] = []
    try:
        with _handled_by(lambda number, _: came.append(number)):
            yield
    finally:
        for number in came[:1]:
            signal.raise_signal(number)


@contextmanager
def _handled_by(handler: _Handler) -> Iterator[None]:
    before = _handlers()
    try:
        for number in _ENDING:
            signal.signal(number, handler)
        yield
    finally:
        for each, earlier in before.items():
            signal.signal(each, earlier)


def _handlers() -> dict[int, Any]:
    return {number: signal.getsignal(number) for number in _ENDING}
