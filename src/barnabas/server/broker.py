"""The parts of one broker that its handlers use."""

from collections.abc import Callable
from dataclasses import dataclass

from barnabas.base.clock import Clock
from barnabas.base.errors import DiskFault
from barnabas.base.ids import BrokerId
from barnabas.log.logs import Logs
from barnabas.replication.replicas import Replicas
from barnabas.server.configs import Configs
from barnabas.server.metadata import MetadataCache
from barnabas.server.producer_ids import ProducerIds
from barnabas.server.topics import Topics


@dataclass(frozen=True, slots=True)
class Broker:
    """Built by compose.py, bottom up; none of the parts knows it."""

    broker_id: BrokerId
    clock: Clock
    metadata: MetadataCache
    replicas: Replicas
    logs: Logs
    topics: Topics
    configs: Configs
    producer_ids: ProducerIds
    disk_failed: Callable[[DiskFault], None]
