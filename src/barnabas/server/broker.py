"""The parts of one broker that its handlers use."""

from dataclasses import dataclass

from barnabas.base.clock import Clock
from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.failures import FailureChannel
from barnabas.base.ids import BrokerId
from barnabas.controller.controller import Controller
from barnabas.log.logs import Logs
from barnabas.replication.replicas import Replicas
from barnabas.server.cluster.acl_admin import AclAdmin
from barnabas.server.cluster.config_admin import ConfigAdmin
from barnabas.server.cluster.configs import Configs
from barnabas.server.cluster.delegation_tokens import DelegationTokens
from barnabas.server.cluster.features import Features
from barnabas.server.cluster.log_dir_moves import LogDirMoves
from barnabas.server.cluster.membership import Registration
from barnabas.server.cluster.metadata_cache import MetadataCache
from barnabas.server.cluster.partition_roles import PartitionRoles
from barnabas.server.cluster.producer_ids import ProducerIds
from barnabas.server.cluster.quota_admin import QuotaAdmin
from barnabas.server.cluster.topic_admin import Topics
from barnabas.server.cluster.user_credentials import UserCredentials
from barnabas.server.groups.group_coordinator import GroupCoordinator
from barnabas.server.groups.tree_offsets import TreeOffsets
from barnabas.server.transactions.marker_writer import MarkerWriter
from barnabas.server.transactions.partition_verification import PartitionVerification
from barnabas.server.transactions.transaction_coordinator import TransactionCoordinator


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledParts:
    """The parts that the requests of a controller change; the controller is none of them."""

    registration: Registration
    metadata: MetadataCache
    partitions: PartitionRoles
    topics: Topics
    configs: Configs
    groups: GroupCoordinator
    features: Features


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker(ControlledParts):
    """Built by node.py, bottom up; none of the parts knows it."""

    broker_id: BrokerId
    transactions: TransactionCoordinator
    verification: PartitionVerification
    markers: MarkerWriter
    clock: Clock
    replicas: Replicas
    logs: Logs
    config_admin: ConfigAdmin
    users: UserCredentials
    tokens: DelegationTokens
    producer_ids: ProducerIds
    tree_offsets: TreeOffsets
    moves: LogDirMoves
    controller: Controller
    failures: FailureChannel
    client_quotas: QuotaAdmin
    acls: AclAdmin | None = None  # without an authorizer there are none

    def check_acls(self) -> AclAdmin:
        """Raises BrokerError(security_disabled) without an authorizer."""
        if self.acls is None:
            raise BrokerError(
                ErrorCode.security_disabled, "No Authorizer is configured on the broker"
            )
        return self.acls

    def check_controller(self) -> None:
        """Raises BrokerError(not_controller) unless this broker is the controller."""
        if not self.controller.is_active:
            raise BrokerError(
                ErrorCode.not_controller, "This is not the correct controller for this cluster."
            )
