"""The controller that every broker runs: it stands for election and handles events if elected.

Watches, timers and requests only put events on the queue; one task handles them one at a time.
When the session expires or another broker is elected, the controller resigns before it handles
any other event.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, overload

from barnabas.base.clock import Clock
from barnabas.base.errors import BrokerError, ErrorCode, LawBroken
from barnabas.base.failures import FailureChannel
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.base.randomness import Random
from barnabas.controller import events
from barnabas.controller.context import Assignment, Context, PartitionLeadership
from barnabas.controller.controller_description import (
    describe_brokers,
    describe_counts,
    describe_partitions,
    describe_queue,
)
from barnabas.controller.decide.steps import ApiError
from barnabas.controller.events import Event
from barnabas.controller.handle.active_controller import (
    ActiveController,
    ControllerDependencies,
    ControllerSettings,
)
from barnabas.controller.handle.event_handlers import HANDLERS
from barnabas.controller.handle.failover import take_over
from barnabas.controller.io import controller_election
from barnabas.controller.io.broker_channels import Connect, Local
from barnabas.controller.io.store import ControllerMoved
from barnabas.controller.io.tree_session import TreeConnection
from barnabas.controller.queue import EventQueue, HandledEvent, QueuedEvent
from barnabas.znodes.tree import Coordination, SessionExpired, SessionState, WatchEvent

log = logging.getLogger("barnabas.controller")

# Events that any broker handles; all others are dropped when their controller resigns.
_OUTLIVE_THE_EPOCH: Final = (
    events.Startup,
    events.ControllerChanged,
    events.SessionEnded,
    events.SessionRenewed,
)
# The delay before the first preferred-leader election, as in Kafka.
_FIRST_BALANCE_S: Final = 5
# The back-off before it resigns: a controller that always fails must not keep the cluster busy.
_AFTER_FAILURE_S: Final = 1


class Controller:
    """Stands for election from `start` to `stop`; the broker owns `coordination`.

    The broker puts SessionRenewed once it is registered in a new session. `failures` receives a
    broken law, after which the controller handles no more events.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        coordination: Coordination,
        *,
        clock: Clock,
        random: Random,
        settings: Callable[[], ControllerSettings],
        connect: Connect,
        local: Local,
        failures: FailureChannel,
        inter_broker_listener: str = "PLAINTEXT",
    ) -> None:
        self._coordination = coordination
        self._clock = clock
        self._dependencies = ControllerDependencies(
            broker_id, settings, random, connect, local, failures, inter_broker_listener
        )
        self._queue = EventQueue()
        self._elected: controller_election.ElectedEpoch | None = None
        self._active: ActiveController | None = None
        self._balance_timer: asyncio.TimerHandle | None = None
        self._unclean_before = 0  # unclean elections in earlier epochs
        self._tasks: list[asyncio.Task[Any]] = []

    # -- called by the broker --------------------------------------------------

    @property
    def is_active(self) -> bool:
        """True if this broker is the controller, as far as it can know."""
        return self._elected is not None and not self._elected.session.is_over

    @property
    def epoch(self) -> int:
        """The controller epoch; 0 if this broker is not the controller."""
        return self._elected.epoch if self._elected is not None else 0

    @property
    def unclean_elections(self) -> int:
        """How many unclean leader elections this broker has made as controller."""
        active = self._active
        return self._unclean_before + (active.performer.unclean_elections if active else 0)

    def start(self) -> None:
        """Stand for election; call it once the broker is registered."""
        self._connection = TreeConnection(self._coordination)
        self._coordination.listen(self._on_state)
        runner = asyncio.create_task(self._run(), name="controller")
        runner.add_done_callback(self._on_end)
        self._tasks = [runner]
        self.put(events.Startup())

    async def stop(self) -> None:
        """Resign and leave the election; pending requests fail with NOT_CONTROLLER."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._resign(on_purpose=True)

    def put(self, event: Event) -> None:
        self._queue.put(event, first=isinstance(event, events.SessionEnded))

    @overload
    async def ask(
        self, event: events.AlterReassignments | events.ElectLeaders
    ) -> dict[TopicPartition, ApiError | None]: ...
    @overload
    async def ask(self, event: events.ListReassignments) -> dict[TopicPartition, Assignment]: ...
    @overload
    async def ask(
        self, event: events.AlterPartition
    ) -> dict[TopicPartition, ErrorCode | PartitionLeadership]: ...
    @overload
    async def ask(self, event: events.ControlledShutdown) -> list[TopicPartition]: ...

    async def ask(self, event: Event) -> Any:
        """Queue a request as an event and return what its handler returns.

        Raises  BrokerError: NOT_CONTROLLER, or the handler's error
        """
        if not self.is_active:
            raise BrokerError(ErrorCode.not_controller)
        return await self._queue.ask(event)

    def last_events(self) -> list[str]:
        """The names of the last events that were handled, successfully or not."""
        return [handled.event for handled in self._queue.handled]

    def describe(self, full: bool = False) -> dict[str, Any]:
        """The controller's state as JSON; `full` includes every partition."""
        active = self._active
        context = active.context if active is not None else Context()
        return {
            "broker": self._dependencies.broker_id,
            "epoch": self.epoch,
            "elected_ms": self._elected.elected_ms if self._elected else -1,
            **describe_queue(self._queue),
            "counts": describe_counts(context),
            "brokers": describe_brokers(active) if active is not None else {},
            **({"partitions": describe_partitions(context)} if full else {}),
        }

    # -- the event loop --------------------------------------------------------

    async def _run(self) -> None:
        while True:
            entry = await self._queue.take()
            time_ms, started = self._clock.now_ms(), asyncio.get_running_loop().time()
            outcome = "abandoned"
            try:
                outcome = await self._handle_entry(entry)
            finally:
                entry.refuse()
                took_ms = int(1000 * (asyncio.get_running_loop().time() - started))
                name = type(entry.event).__name__
                self._queue.handled.append(HandledEvent(time_ms, name, took_ms, outcome))

    async def _handle_entry(self, entry: QueuedEvent) -> str:
        """Handle an event in its own task: a bug in a handler only makes the controller resign."""
        task = asyncio.create_task(self._handle(entry.event))
        self._tasks[1:] = [task]
        await asyncio.wait(self._tasks[1:])
        match task.exception():
            case None:
                entry.settle(task.result())
                return "done"
            case BrokerError() as refusal:
                entry.refuse(refusal)
                return refusal.code.name
            case SessionExpired():
                await self._resign()
                return "session expired"
            case ControllerMoved() as moved:
                log.info("%s", moved)
                await self._resign()
                self.put(events.ControllerChanged())
                return "controller moved"
            case LawBroken() as broken:
                raise broken
            case error:
                log.error("event failed event=%s", entry.event, exc_info=error)
                await asyncio.sleep(_AFTER_FAILURE_S)
                await self._resign(on_purpose=True)
                self.put(events.ControllerChanged())
                return f"failed: {error}"

    async def _handle(self, event: Event) -> object:
        match event:
            case events.Startup() | events.SessionRenewed() | events.ControllerChanged():
                await self._check_controller()
            case events.SessionEnded():
                if self._elected is not None and self._elected.session.is_over:
                    await self._resign()
            case _ if self._active is None:
                raise BrokerError(ErrorCode.not_controller)
            case _:
                try:
                    return await HANDLERS[type(event)](self._active, event)
                finally:
                    if isinstance(event, events.BalanceDue):
                        self._schedule_balance(
                            self._dependencies.settings().imbalance_check_interval_s
                        )
        return None

    def _on_end(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._dependencies.failures.fatal(error)

    # -- election ------------------------------------------------------------

    async def _check_controller(self) -> None:
        """Resign if another broker is controller; stand for election if none is."""
        session = self._connection.session()
        if session.is_over:
            return
        holder = await controller_election.watch_controller(session, self._on_controller)
        if self._elected is not None:
            if holder is not None and holder.ephemeral_owner == self._elected.session.session_id:
                return
            await self._resign()
        if holder is None or holder.ephemeral_owner == session.session_id:
            await self._elect()

    async def _elect(self) -> None:
        elected = await controller_election.elect(
            self._connection.session(),
            self._dependencies.broker_id,
            self._clock.now_ms(),
            self._on_controller,
        )
        if elected is None:
            return
        log.info(
            "elected controller broker=%d epoch=%d", self._dependencies.broker_id, elected.epoch
        )
        self._elected = elected
        self._active = ActiveController(self._dependencies, elected, self.put)
        await take_over(self._active)
        self._schedule_balance(_FIRST_BALANCE_S)

    async def _resign(self, on_purpose: bool = False) -> None:
        """Stop being controller.

        With `on_purpose` /controller is deleted: the next election need not wait for our session
        to expire.
        """
        elected, self._elected = self._elected, None
        active, self._active = self._active, None
        if self._balance_timer is not None:
            self._balance_timer.cancel()
        self._queue.keep_only(_OUTLIVE_THE_EPOCH)
        if active is not None:
            self._unclean_before += active.performer.unclean_elections
            await active.end()
        if elected is not None:
            log.info(
                "resigned as controller broker=%d epoch=%d",
                self._dependencies.broker_id,
                elected.epoch,
            )
            if on_purpose:
                await controller_election.resign(elected)

    def _schedule_balance(self, delay_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._balance_timer = loop.call_later(delay_s, self.put, events.BalanceDue())

    def _on_controller(self, _: WatchEvent) -> None:
        self.put(events.ControllerChanged())

    def _on_state(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            self.put(events.SessionEnded())
