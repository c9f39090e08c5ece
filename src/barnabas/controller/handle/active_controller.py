"""The active controller: all that one controller epoch owns, closed together."""

from collections.abc import Callable
from dataclasses import dataclass

from barnabas.base.failures import FailureChannel
from barnabas.base.ids import BrokerId
from barnabas.base.randomness import Random
from barnabas.controller.context import Context
from barnabas.controller.decide.steps import Steps
from barnabas.controller.events import Event
from barnabas.controller.handle.perform import Performed, Performer
from barnabas.controller.io.broker_channels import Channels, Connect, Local
from barnabas.controller.io.controller_election import ElectedEpoch
from barnabas.controller.io.request_batch import RequestBatch
from barnabas.controller.io.store import Store
from barnabas.controller.io.tree_watches import TreeWatches


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """The broker properties that the controller uses; read again for every event."""

    auto_leader_rebalance: bool = True
    imbalance_percentage: int = 10
    imbalance_check_interval_s: float = 300
    delete_topic_enabled: bool = True
    unclean_leader_election: bool = False
    request_timeout_s: float = 30


@dataclass(frozen=True, slots=True)
class ControllerDependencies:
    """The parts that a broker gives its controller, the same for all epochs."""

    broker_id: BrokerId
    settings: Callable[[], ControllerSettings]
    random: Random
    connect: Connect
    local: Local
    failures: FailureChannel
    inter_broker_listener: str = "PLAINTEXT"


class ActiveController:
    """One controller epoch: context, store, watches, and channels to the brokers."""

    def __init__(
        self,
        dependencies: ControllerDependencies,
        elected: ElectedEpoch,
        put: Callable[[Event], None],
    ) -> None:
        self.elected = elected
        self.settings = dependencies.settings
        self.random = dependencies.random
        self.context = Context(epoch=elected.epoch, epoch_version=elected.epoch_version)
        self.store = Store(elected.session, elected.epoch_version)
        self.watches = TreeWatches(self.store, put)
        self.channels = Channels(
            dependencies.broker_id,
            connect=dependencies.connect,
            local=dependencies.local,
            on_answer=put,
            failures=dependencies.failures,
            timeout_s=lambda: dependencies.settings().request_timeout_s,
        )
        self.performer = Performer(
            self.context,
            self.store,
            self.watches,
            self.channels,
            RequestBatch(
                self.context,
                dependencies.broker_id,
                inter_broker_listener=dependencies.inter_broker_listener,
            ),
            lambda: dependencies.settings().unclean_leader_election,
        )

    async def perform(self, steps: Steps) -> Performed:
        return await self.performer.perform(steps)

    async def end(self) -> None:
        """Stop watching the tree and sending to brokers."""
        self.watches.end()
        await self.channels.close()
