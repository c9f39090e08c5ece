"""The purgatory: delayed operations, which complete by an event or by their timeout.

An operation watches keys (a partition, a group) and has a timeout. Code that changes the state
behind a key calls `check_and_complete(key)`, which completes the operations that are now
satisfied; the others complete when they expire. An operation that completes leaves all its keys
and the timer in the same step, so nothing is left to purge.
A `KeyListener` watches one key without being an operation: it has no timeout and never completes.

All of it runs on the loop's thread and never suspends. Completing one operation may add,
complete or cancel others, also in the same purgatory.
"""

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from barnabas.base.laws import law
from barnabas.purgatory.timer import Timer
from barnabas.purgatory.timing_wheel import TimerTask


class DelayedOperation(TimerTask):
    """One request that cannot complete yet; a subclass decides when it can, and responds.

    Operations compare by identity, so a subclass must not define equality.

    Keeps   PUR-1  an operation completes exactly once
    """

    __slots__ = ("completed", "keys", "purgatory")

    def __init__(self) -> None:
        super().__init__()
        self.completed = False
        self.keys: tuple[Hashable, ...] = ()
        self.purgatory: Purgatory[Any] | None = None  # where it waits; None if it does not

    @abstractmethod
    def try_complete(self) -> bool:
        """True if the operation is satisfied; the purgatory then completes it."""

    def on_turn(self) -> bool:
        """Complete if satisfied; return whether it completed."""
        return self.try_complete() and self.force_complete()

    def on_event(self) -> bool:
        """React to a change of one of its keys; return whether it completed."""
        return self.on_turn()

    @abstractmethod
    def on_complete(self) -> None:
        """Respond to the request. Called once, by an event or by the timeout."""

    def on_expire(self) -> None:
        """Count an expiration; called after `on_complete`."""

    def force_complete(self) -> bool:
        """Complete now, satisfied or not; False if it has completed before.

        It leaves the purgatory first: it has completed even if `on_complete` raises.
        """
        if self.completed:
            return False
        self.completed = True
        if self.purgatory is not None:
            self.purgatory.cancel(self)
        self.on_complete()
        return True

    def run(self) -> None:
        """Complete because the timeout expired."""
        if self.force_complete():
            self.on_expire()


Operation = TypeVar("Operation", bound=DelayedOperation)


class KeyListener(Protocol):
    """A watcher of one key that outlives a request. Compares by identity."""

    listens_in: "Purgatory[Any] | None"  # None while it does not listen

    def on_event(self) -> bool:
        """React to a change of the key; return False, as a listener never completes."""


class Purgatory(Generic[Operation]):
    """The waiting operations of one kind; several purgatories may share one timer.

    Keeps   PUR-2  an operation waits in one purgatory at the most
    """

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._delayed = 0
        self._listening = 0
        # The watchers of each key, in order of arrival; a key without watchers is absent.
        self._watchers: dict[Hashable, dict[Operation | KeyListener, None]] = {}
        # True for a key that has watchers: most keys have none.
        self.is_watched = self._watchers.__contains__

    @property
    def watched(self) -> int:
        """How many keys operations watch: an operation counts once for each of its keys."""
        return sum(map(len, self._watchers.values())) - self._listening

    @property
    def listening(self) -> int:
        """How many listeners watch a key."""
        return self._listening

    @property
    def delayed(self) -> int:
        """How many operations wait."""
        return self._delayed

    def try_complete_else_watch(
        self, operation: Operation, keys: Iterable[Hashable], timeout_ms: int
    ) -> bool:
        """Complete the operation if it is satisfied or has no timeout; else watch its keys.

        Returns whether it completed. If the operation raises, so does this: nothing waits then.
        """
        law(not operation.completed, "PUR-1 an operation completes exactly once")
        law(operation.purgatory is None, "PUR-2 an operation waits in one purgatory at the most")
        if operation.try_complete():
            return operation.force_complete()
        self.watch(operation, keys, timeout_ms)
        return operation.completed

    def watch(self, operation: Operation, keys: Iterable[Hashable], timeout_ms: int) -> None:
        """Add an operation that is known to be unsatisfied; without a timeout it completes now."""
        watched = tuple(dict.fromkeys(keys))
        if not self._timer.add(operation, timeout_ms):
            operation.run()
            return
        operation.purgatory = self
        operation.keys = watched
        self._delayed += 1
        for key in watched:
            self._watchers.setdefault(key, {})[operation] = None

    def listen(self, listener: KeyListener, key: Hashable) -> None:
        """Report changes of a key to a listener that does not listen yet.

        It listens until `stop_listening`, which its own `on_event` may call.
        """
        listener.listens_in = self
        self._listening += 1
        self._watchers.setdefault(key, {})[listener] = None

    def stop_listening(self, listener: KeyListener, key: Hashable) -> None:
        """Stop reporting changes of this key to a listener."""
        listener.listens_in = None
        self._listening -= 1
        self._leave(listener, key)

    def check_and_complete(self, key: Hashable) -> int:
        """Complete the satisfied operations that watch this key; return how many completed.

        An error of an operation goes to the loop's exception handler: it is not the caller's. If
        `try_complete` raised it, the operation keeps waiting.
        """
        watchers = self._watchers.get(key)
        if watchers is None:
            return 0
        completed = 0
        for operation in tuple(watchers):
            # An earlier one may have completed or cancelled it.
            if operation in watchers:
                completed += self._notify(operation)
        return completed

    def check(self, operation: Operation) -> bool:
        """Complete one operation that waits here, if satisfied; return whether it completed."""
        return operation.purgatory is self and self._guarded(operation, operation.on_turn)

    def check_all(self, keys: Iterable[Hashable]) -> int:
        """As `check_and_complete` for any of these keys, each watcher once."""
        watching: dict[Operation | KeyListener, None] = {}
        for key in keys:
            watching.update(self._watchers.get(key, {}))
        # An earlier one may have completed or cancelled it.
        return sum(self._notify(each) for each in watching if self._is_here(each))

    def cancel(self, operation: Operation) -> bool:
        """Remove one operation, completed or not; False if it does not wait here."""
        if operation.purgatory is not self:
            return False
        operation.purgatory = None
        self._timer.cancel(operation)
        self._delayed -= 1
        for key in operation.keys:
            self._leave(operation, key)
        return True

    def _leave(self, watcher: Operation | KeyListener, key: Hashable) -> None:
        watchers = self._watchers[key]
        del watchers[watcher]
        if not watchers:
            del self._watchers[key]

    def _is_here(self, watcher: Operation | KeyListener) -> bool:
        if isinstance(watcher, DelayedOperation):
            return watcher.purgatory is self
        return watcher.listens_in is self

    def _notify(self, watcher: Operation | KeyListener) -> bool:
        return self._guarded(watcher, watcher.on_event)

    def _guarded(self, watcher: Operation | KeyListener, step: Callable[[], bool]) -> bool:
        try:
            return step()
        except Exception as error:
            self._timer.report(error, watcher)
            return isinstance(watcher, DelayedOperation) and watcher.completed
