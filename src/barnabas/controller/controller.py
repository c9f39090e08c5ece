"""The controller candidate that every broker runs: it stands for election, and reigns if elected.

Whatever happens only puts an event on the queue; one task takes them one at a time. When the
session expires or another is elected, everything of the reign ends before any other event.
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
from barnabas.controller import controller_election, events
from barnabas.controller.context import Assignment, Context, Led
from barnabas.controller.controller_description import (
    describe_brokers,
    describe_counts,
    describe_partitions,
    describe_queue,
)
from barnabas.controller.controller_epoch import ControllerSettings, Reign, Surroundings
from barnabas.controller.decide.steps import Refusal
from barnabas.controller.events import Event
from barnabas.controller.handle.event_handlers import HANDLERS
from barnabas.controller.handle.failover import take_over
from barnabas.controller.io.broker_channels import Connect, Local
from barnabas.controller.io.store import Deposed
from barnabas.controller.io.tree_session import Connection
from barnabas.controller.queue import Entry, EventQueue, Handled
from barnabas.znodes.tree import Coordination, SessionExpired, SessionState, WatchEvent

log = logging.getLogger("barnabas.controller")

# What is of any reign, or of none; all other events end with the reign they are for.
_OF_ANY_REIGN: Final = (
    events.Startup,
    events.ControllerChanged,
    events.SessionExpired,
    events.SessionRenewed,
)
# As Kafka does: new leaders have a moment to settle before they are sent home.
_FIRST_BALANCE_S: Final = 5
# So that a controller that fails at once, again and again, does not keep the cluster busy.
_AFTER_FAILURE_S: Final = 1


class Controller:
    """Stands for election from `start` to `stop`; `coordination` belongs to the broker.

    The broker puts SessionRenewed when it is registered in a new session. `failures` gets a
    broken law, after which nothing here goes on.
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
        self._around = Surroundings(
            broker_id, settings, random, connect, local, failures, inter_broker_listener
        )
        self._queue = EventQueue()
        self._elected: controller_election.Elected | None = None
        self._reign: Reign | None = None
        self._balance_timer: asyncio.TimerHandle | None = None
        self._unclean_before = 0  # elections of earlier reigns
        self._tasks: list[asyncio.Task[Any]] = []

    # -- asked by the broker -------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Whether this is the controller, as far as it can know."""
        return self._elected is not None and not self._elected.session.is_over

    @property
    def epoch(self) -> int:
        """The epoch it was elected with; 0 if it is not the controller."""
        return self._elected.epoch if self._elected is not None else 0

    @property
    def unclean_elections(self) -> int:
        """How many leaders this broker has elected, as controller, that may lack records."""
        reign = self._reign
        return self._unclean_before + (reign.performer.unclean_elections if reign else 0)

    def start(self) -> None:
        """Stand for election; the broker is registered."""
        self._connection = Connection(self._coordination)
        self._coordination.listen(self._on_state)
        runner = asyncio.create_task(self._run(), name="controller")
        runner.add_done_callback(self._on_end)
        self._tasks = [runner]
        self.put(events.Startup())

    async def stop(self) -> None:
        """Resign and stand no more; whoever waits for an answer gets NOT_CONTROLLER."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._resign(on_purpose=True)

    def put(self, event: Event) -> None:
        self._queue.put(event, first=isinstance(event, events.SessionExpired))

    @overload
    async def ask(
        self, event: events.AlterReassignments | events.ElectLeaders
    ) -> dict[TopicPartition, Refusal | None]: ...
    @overload
    async def ask(self, event: events.ListReassignments) -> dict[TopicPartition, Assignment]: ...
    @overload
    async def ask(self, event: events.AlterPartition) -> dict[TopicPartition, ErrorCode | Led]: ...
    @overload
    async def ask(self, event: events.ControlledShutdown) -> list[TopicPartition]: ...

    async def ask(self, event: Event) -> Any:
        """The answer to a client's event, when its turn has come.

        Raises  BrokerError: NOT_CONTROLLER, or what else the handler refuses it with
        """
        if not self.is_active:
            raise BrokerError(ErrorCode.not_controller)
        return await self._queue.ask(event)

    def last_events(self) -> list[str]:
        """The names of the last events that were handled, whatever came of them."""
        return [handled.event for handled in self._queue.handled]

    def describe(self, full: bool = False) -> dict[str, Any]:
        """What it knows and does, as JSON; `full` also tells of every partition."""
        reign = self._reign
        context = reign.context if reign is not None else Context()
        return {
            "broker": self._around.broker_id,
            "epoch": self.epoch,
            "elected_ms": self._elected.elected_ms if self._elected else -1,
            **describe_queue(self._queue),
            "counts": describe_counts(context),
            "brokers": describe_brokers(reign) if reign is not None else {},
            **({"partitions": describe_partitions(context)} if full else {}),
        }

    # -- the one task --------------------------------------------------------

    async def _run(self) -> None:
        while True:
            entry = await self._queue.take()
            time_ms, started = self._clock.now_ms(), asyncio.get_running_loop().time()
            outcome = "abandoned"
            try:
                outcome = await self._take(entry)
            finally:
                entry.refuse()
                took_ms = int(1000 * (asyncio.get_running_loop().time() - started))
                name = type(entry.event).__name__
                self._queue.handled.append(Handled(time_ms, name, took_ms, outcome))

    async def _take(self, entry: Entry) -> str:
        """Handle an event in a task of its own, so that a bug in it ends no more than a reign."""
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
            case Deposed() as deposed:
                log.info("%s", deposed)
                await self._resign()
                self.put(events.ControllerChanged())
                return "deposed"
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
                await self._look()
            case events.SessionExpired():
                if self._elected is not None and self._elected.session.is_over:
                    await self._resign()
            case _ if self._reign is None:
                raise BrokerError(ErrorCode.not_controller)
            case _:
                try:
                    return await HANDLERS[type(event)](self._reign, event)
                finally:
                    if isinstance(event, events.BalanceDue):
                        self._schedule_balance(self._around.settings().imbalance_check_interval_s)
        return None

    def _on_end(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._around.failures.fatal(error)

    # -- election ------------------------------------------------------------

    async def _look(self) -> None:
        """Resign if another is controller; stand if nobody is."""
        session = self._connection.session()
        if session.is_over:
            return
        holder = await controller_election.look(session, self._on_controller)
        if self._elected is not None:
            if holder is not None and holder.ephemeral_owner == self._elected.session.session_id:
                return
            await self._resign()
        if holder is None or holder.ephemeral_owner == session.session_id:
            await self._stand()

    async def _stand(self) -> None:
        elected = await controller_election.stand(
            self._connection.session(),
            self._around.broker_id,
            self._clock.now_ms(),
            self._on_controller,
        )
        if elected is None:
            return
        log.info("elected controller broker=%d epoch=%d", self._around.broker_id, elected.epoch)
        self._elected = elected
        self._reign = Reign(self._around, elected, self.put)
        await take_over(self._reign)
        self._schedule_balance(_FIRST_BALANCE_S)

    async def _resign(self, on_purpose: bool = False) -> None:
        """End the reign; on purpose, another can be elected without waiting for our session."""
        elected, self._elected = self._elected, None
        reign, self._reign = self._reign, None
        if self._balance_timer is not None:
            self._balance_timer.cancel()
        self._queue.keep_only(_OF_ANY_REIGN)
        if reign is not None:
            self._unclean_before += reign.performer.unclean_elections
            await reign.end()
        if elected is not None:
            log.info(
                "resigned as controller broker=%d epoch=%d", self._around.broker_id, elected.epoch
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
            self.put(events.SessionExpired())
