"""Delayed operations: requests that wait for an event, or for their time to run out.

An operation is watched under keys (a partition, a group) and by the clock at once. Whoever
changes what a key stands for calls `check_and_complete(key)`; what is then satisfied
completes, and what never is completes when its timeout ends. An operation that completes
leaves all its keys and the timer in the same step, so nothing is left behind to purge.
A `Listener` watches one key without being an operation: it has no timeout and never completes.

All of it runs on the loop's thread and never suspends. Completing one operation may add,
complete or cancel others, in the same purgatory too.
"""

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from barnabas.base.laws import law
from barnabas.purgatory.timer import Timer
from barnabas.purgatory.timing_wheel import TimerTask


class DelayedOperation(TimerTask):
    """One request that cannot be answered yet; a subclass says when it can be, and answers it.

    Each is equal to itself alone, so a subclass must not define equality.

    Keeps   PUR-1  an operation completes exactly once
    """

    __slots__ = ("completed", "keys", "purgatory")

    def __init__(self) -> None:
        super().__init__()
        self.completed = False
        self.keys: tuple[Hashable, ...] = ()
        self.purgatory: Purgatory[Any] | None = None  # where it waits; None when it does not

    @abstractmethod
    def try_complete(self) -> bool:
        """Whether what it waits for has come; the purgatory then completes it."""

    def on_turn(self) -> bool:
        """Complete if what it waits for has come; returns whether it has."""
        return self.try_complete() and self.force_complete()

    def on_event(self) -> bool:
        """React to a change of one of its keys; returns whether that completed it."""
        return self.on_turn()

    @abstractmethod
    def on_complete(self) -> None:
        """Answer the request. Called once, whether by an event or by the clock."""

    def on_expire(self) -> None:
        """Take note that it was the clock; called after `on_complete`."""

    def force_complete(self) -> bool:
        """Complete now, whatever `try_complete` says; False if it has completed already.

        It leaves the purgatory first: also when `on_complete` raises, it has completed.
        """
        if self.completed:
            return False
        self.completed = True
        if self.purgatory is not None:
            self.purgatory.cancel(self)
        self.on_complete()
        return True

    def run(self) -> None:
        """The clock was first."""
        if self.force_complete():
            self.on_expire()


Operation = TypeVar("Operation", bound=DelayedOperation)


class Listener(Protocol):
    """A watcher of one key that lives longer than a request. Equal to itself alone."""

    listens_in: "Purgatory[Any] | None"  # None while it does not listen

    def on_event(self) -> bool:
        """React to a change of the key; returns False, as it never completes."""


class Purgatory(Generic[Operation]):
    """Where operations of one kind wait; several purgatories may share one timer.

    Keeps   PUR-2  an operation waits in one purgatory at the most
    """

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._delayed = 0
        self._listening = 0
        # The watchers of a key, in order of arrival; a key that nobody watches is absent.
        self._watchers: dict[Hashable, dict[Operation | Listener, None]] = {}
        # Whether anybody watches a key: most often nobody does.
        self.is_watched = self._watchers.__contains__

    @property
    def watched(self) -> int:
        """How many watches operations hold: one counts once for each of its keys."""
        return sum(map(len, self._watchers.values())) - self._listening

    @property
    def listening(self) -> int:
        """How many listeners there are."""
        return self._listening

    @property
    def delayed(self) -> int:
        """How many operations wait."""
        return self._delayed

    def try_complete_else_watch(
        self, operation: Operation, keys: Iterable[Hashable], timeout_ms: int
    ) -> bool:
        """Complete the operation if it can be, or has no time to wait; else let it wait.

        Says whether it is complete. What the operation raises is raised here: nothing waits then.
        """
        law(not operation.completed, "PUR-1 an operation completes exactly once")
        law(operation.purgatory is None, "PUR-2 an operation waits in one purgatory at the most")
        if operation.try_complete():
            return operation.force_complete()
        self.watch(operation, keys, timeout_ms)
        return operation.completed

    def watch(self, operation: Operation, keys: Iterable[Hashable], timeout_ms: int) -> None:
        """Add an operation that is known to be incomplete; it runs if it has no time to wait."""
        watched = tuple(dict.fromkeys(keys))
        if not self._timer.add(operation, timeout_ms):
            operation.run()
            return
        operation.purgatory = self
        operation.keys = watched
        self._delayed += 1
        for key in watched:
            self._watchers.setdefault(key, {})[operation] = None

    def listen(self, listener: Listener, key: Hashable) -> None:
        """Report changes of a key to a listener that does not listen yet, until `stop_listening`
        or `on_event` of its own ends that."""
        listener.listens_in = self
        self._listening += 1
        self._watchers.setdefault(key, {})[listener] = None

    def stop_listening(self, listener: Listener, key: Hashable) -> None:
        """Report nothing more to a listener of this key."""
        listener.listens_in = None
        self._listening -= 1
        self._leave(listener, key)

    def check_and_complete(self, key: Hashable) -> int:
        """Complete those that watch this key and now can be; says how many this call completed.

        What an operation raises goes to the loop's exception handler, as it is no fault of
        the caller's; if it was `try_complete` that raised, the operation waits on.
        """
        watchers = self._watchers.get(key)
        if watchers is None:
            return 0
        completed = 0
        for operation in tuple(watchers):
            # One before it may have completed it or taken it away.
            if operation in watchers:
                completed += self._notify(operation)
        return completed

    def check(self, operation: Operation) -> bool:
        """Complete one operation that waits here, if it can be; returns whether it completed."""
        return operation.purgatory is self and self._guarded(operation, operation.on_turn)

    def check_all(self, keys: Iterable[Hashable]) -> int:
        """The same for those that watch any of these keys, each of them once."""
        watching: dict[Operation | Listener, None] = {}
        for key in keys:
            watching.update(self._watchers.get(key, {}))
        # One before it may have completed it or taken it away.
        return sum(self._notify(each) for each in watching if self._is_here(each))

    def cancel_for(self, key: Hashable) -> list[Operation]:
        """Take away all that watch this key, from their other keys too, for the caller to answer.

        None of them has completed; the caller may still `force_complete` them.
        """
        watchers = self._watchers.get(key, ())
        cancelled = [each for each in watchers if isinstance(each, DelayedOperation)]
        for operation in cancelled:
            self.cancel(operation)
        return cancelled

    def cancel(self, operation: Operation) -> bool:
        """Forget one operation, answered or not; False if it does not wait here."""
        if operation.purgatory is not self:
            return False
        operation.purgatory = None
        self._timer.cancel(operation)
        self._delayed -= 1
        for key in operation.keys:
            self._leave(operation, key)
        return True

    def _leave(self, watcher: Operation | Listener, key: Hashable) -> None:
        watchers = self._watchers[key]
        del watchers[watcher]
        if not watchers:
            del self._watchers[key]

    def _is_here(self, watcher: Operation | Listener) -> bool:
        if isinstance(watcher, DelayedOperation):
            return watcher.purgatory is self
        return watcher.listens_in is self

    def _notify(self, watcher: Operation | Listener) -> bool:
        return self._guarded(watcher, watcher.on_event)

    def _guarded(self, watcher: Operation | Listener, step: Callable[[], bool]) -> bool:
        try:
            return step()
        except Exception as error:
            self._timer.report(error, watcher)
            return isinstance(watcher, DelayedOperation) and watcher.completed
