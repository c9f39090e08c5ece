"""All that an elected controller has, for as long as its epoch lasts; it ends as one."""

from collections.abc import Callable
from dataclasses import dataclass

from barnabas.base.failures import FailureChannel
from barnabas.base.ids import BrokerId
from barnabas.base.randomness import Random
from barnabas.controller.context import Context
from barnabas.controller.controller_election import Elected
from barnabas.controller.decide.steps import Steps
from barnabas.controller.events import Event
from barnabas.controller.handle.perform import Performed, Performer
from barnabas.controller.io.broker_channels import Channels, Connect, Local
from barnabas.controller.io.request_batch import RequestBatch
from barnabas.controller.io.store import Store
from barnabas.controller.io.tree_watches import Watching


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """The properties of the broker that its controller goes by; asked for anew each time."""

    auto_leader_rebalance: bool = True
    imbalance_percentage: int = 10
    imbalance_check_interval_s: float = 300
    delete_topic_enabled: bool = True
    unclean_leader_election: bool = False
    request_timeout_s: float = 30


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a controller is given by the broker it runs in, for all its epochs."""

    broker_id: BrokerId
    settings: Callable[[], ControllerSettings]
    random: Random
    connect: Connect
    local: Local
    failures: FailureChannel
    inter_broker_listener: str = "PLAINTEXT"


class Reign:
    """One epoch of one controller: what it knows, and its ways to see, write and tell."""

    def __init__(
        self, around: Surroundings, elected: Elected, put: Callable[[Event], None]
    ) -> None:
        self.elected = elected
        self.settings = around.settings
        self.random = around.random
        self.context = Context(epoch=elected.epoch, epoch_version=elected.epoch_version)
        self.store = Store(elected.session, elected.epoch_version)
        self.watching = Watching(self.store, put)
        self.channels = Channels(
            around.broker_id,
            connect=around.connect,
            local=around.local,
            on_answer=put,
            failures=around.failures,
            timeout_s=lambda: around.settings().request_timeout_s,
        )
        self.performer = Performer(
            self.context,
            self.store,
            self.watching,
            self.channels,
            RequestBatch(
                self.context,
                around.broker_id,
                inter_broker_listener=around.inter_broker_listener,
            ),
            lambda: around.settings().unclean_leader_election,
        )

    async def perform(self, steps: Steps) -> Performed:
        return await self.performer.perform(steps)

    async def end(self) -> None:
        """See and tell nothing any more."""
        self.watching.end()
        await self.channels.close()
