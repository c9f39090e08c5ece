"""The rights that each API asks for, as Kafka's does: one table, for the dispatcher and the docs.

`WHOLE` refuses the request, `EACH` the elements that the principal has no right to; both are
checked before the handler sees the request. `HANDLER` is checked by the handler of the API, where
the response depends on more. Kafka's own table differs from its code in three rows; these follow
the code: ElectLeaders asks for ALTER on the cluster, ConsumerGroupDescribe for DESCRIBE on the
group, and Produce no longer asks for IDEMPOTENT_WRITE. The topics of ConsumerGroupHeartbeat and
ConsumerGroupDescribe are checked as in Kafka 4.
"""

import enum
from typing import Final, NamedTuple

from barnabas.security.acls import Operation, ResourceType


class How(enum.Enum):
    WHOLE = "the request"
    EACH = "each"
    HANDLER = "by the handler"


class Check(NamedTuple):
    """One right: `name` is the field with the resource's name, in the elements of `items`.

    `or_cluster`: this operation on the cluster is enough, instead of this right.
    """

    operation: Operation
    resource: ResourceType
    how: How = How.WHOLE
    name: str = ""
    items: str = ""
    or_cluster: Operation | None = None
    note: str = ""


class Row(NamedTuple):
    """An API, by its number, and the rights it asks for."""

    number: int
    name: str
    checks: tuple[Check, ...] = ()
    note: str = ""


_O, _R = Operation, ResourceType


def _cluster(operation: Operation, note: str = "") -> Check:
    return Check(operation, _R.CLUSTER, note=note)


def _group(operation: Operation) -> Check:
    return Check(operation, _R.GROUP, name="group_id")


def _each(
    operation: Operation,
    resource: ResourceType,
    items: str,
    name: str = "name",
    or_cluster: Operation | None = None,
) -> Check:
    return Check(operation, resource, How.EACH, name, items, or_cluster)


def _handler(operation: Operation, resource: ResourceType, note: str) -> Check:
    return Check(operation, resource, How.HANDLER, note=note)


_WRITE_TXN: Final = Check(_O.WRITE, _R.TRANSACTIONAL_ID, name="transactional_id")
_ACTION: Final = _cluster(_O.CLUSTER_ACTION)

ROWS: Final = (
    Row(
        0,
        "Produce",
        (
            _handler(_O.WRITE, _R.TOPIC, "each topic"),
            _handler(_O.WRITE, _R.TRANSACTIONAL_ID, "the request, if it is transactional"),
        ),
    ),
    Row(
        1,
        "Fetch",
        (
            _handler(_O.READ, _R.TOPIC, "each topic, of a consumer"),
            _handler(_O.CLUSTER_ACTION, _R.CLUSTER, "each topic, of a follower"),
        ),
    ),
    Row(2, "ListOffsets", (_each(_O.DESCRIBE, _R.TOPIC, "topics"),)),
    Row(
        3,
        "Metadata",
        (
            _handler(_O.DESCRIBE, _R.TOPIC, "each topic; others are left out of a list of all"),
            _handler(_O.CREATE, _R.TOPIC, "to create a topic; or CREATE on the cluster"),
        ),
    ),
    Row(4, "LeaderAndIsr", (_ACTION,)),
    Row(5, "StopReplica", (_ACTION,)),
    Row(6, "UpdateMetadata", (_ACTION,)),
    Row(7, "ControlledShutdown", (_ACTION,)),
    Row(8, "OffsetCommit", (_group(_O.READ), _each(_O.READ, _R.TOPIC, "topics"))),
    Row(
        9,
        "OffsetFetch",
        (
            _handler(_O.DESCRIBE, _R.GROUP, "each group"),
            _handler(_O.DESCRIBE, _R.TOPIC, "each topic; others are left out of a list of all"),
        ),
    ),
    Row(
        10,
        "FindCoordinator",
        (
            _handler(_O.DESCRIBE, _R.GROUP, "each key of a group"),
            _handler(_O.DESCRIBE, _R.TRANSACTIONAL_ID, "each key of a transaction"),
        ),
    ),
    Row(11, "JoinGroup", (_group(_O.READ),)),
    Row(12, "Heartbeat", (_group(_O.READ),)),
    Row(13, "LeaveGroup", (_group(_O.READ),)),
    Row(14, "SyncGroup", (_group(_O.READ),)),
    Row(15, "DescribeGroups", (_each(_O.DESCRIBE, _R.GROUP, "groups", ""),)),
    Row(
        16,
        "ListGroups",
        (_handler(_O.DESCRIBE, _R.GROUP, "each group listed; or DESCRIBE on the cluster"),),
    ),
    Row(17, "SaslHandshake", note="before authentication"),
    Row(18, "ApiVersions", note="nothing, also before authentication"),
    Row(
        19,
        "CreateTopics",
        (
            _each(_O.CREATE, _R.TOPIC, "topics", or_cluster=_O.CREATE),
            _handler(_O.DESCRIBE_CONFIGS, _R.TOPIC, "for the configs in the response"),
        ),
    ),
    Row(
        20,
        "DeleteTopics",
        (
            _handler(_O.DELETE, _R.TOPIC, "each topic"),
            _handler(_O.DESCRIBE, _R.TOPIC, "each topic by id, to learn its name"),
        ),
    ),
    Row(21, "DeleteRecords", (_each(_O.DELETE, _R.TOPIC, "topics"),)),
    Row(
        22,
        "InitProducerId",
        (
            _handler(_O.WRITE, _R.TRANSACTIONAL_ID, "with a transactional id"),
            _handler(_O.IDEMPOTENT_WRITE, _R.CLUSTER, "else; or WRITE on any topic"),
        ),
    ),
    Row(
        23,
        "OffsetForLeaderEpoch",
        (_each(_O.DESCRIBE, _R.TOPIC, "topics", "topic", _O.CLUSTER_ACTION),),
    ),
    Row(
        24,
        "AddPartitionsToTxn",
        (
            _handler(_O.WRITE, _R.TRANSACTIONAL_ID, "the request, of a client"),
            _handler(_O.CLUSTER_ACTION, _R.CLUSTER, "the request, of a broker (version 4 and up)"),
            _handler(_O.WRITE, _R.TOPIC, "each topic; then none is added"),
        ),
    ),
    Row(25, "AddOffsetsToTxn", (_WRITE_TXN, _group(_O.READ))),
    Row(26, "EndTxn", (_WRITE_TXN,)),
    Row(27, "WriteTxnMarkers", (_ACTION._replace(or_cluster=_O.ALTER),)),
    Row(
        28,
        "TxnOffsetCommit",
        (_WRITE_TXN, _group(_O.READ), _each(_O.READ, _R.TOPIC, "topics")),
    ),
    Row(29, "DescribeAcls", (_cluster(_O.DESCRIBE),)),
    Row(30, "CreateAcls", (_cluster(_O.ALTER),)),
    Row(31, "DeleteAcls", (_cluster(_O.ALTER),)),
    Row(
        32,
        "DescribeConfigs",
        (
            _handler(_O.DESCRIBE_CONFIGS, _R.TOPIC, "each topic"),
            _handler(_O.DESCRIBE_CONFIGS, _R.CLUSTER, "each broker"),
        ),
    ),
    Row(
        33,
        "AlterConfigs",
        (
            _handler(_O.ALTER_CONFIGS, _R.TOPIC, "each topic"),
            _handler(_O.ALTER_CONFIGS, _R.CLUSTER, "each broker"),
        ),
    ),
    Row(34, "AlterReplicaLogDirs", (_cluster(_O.ALTER),)),
    Row(35, "DescribeLogDirs", (_cluster(_O.DESCRIBE),)),
    Row(36, "SaslAuthenticate", note="before authentication"),
    Row(37, "CreatePartitions", (_each(_O.ALTER, _R.TOPIC, "topics"),)),
    Row(
        38,
        "CreateDelegationToken",
        (_handler(_O.CREATE_TOKENS, _R.USER, "for another owner"),),
    ),
    Row(39, "RenewDelegationToken", note="the owner or a renewer of the token"),
    Row(40, "ExpireDelegationToken", note="the owner or a renewer of the token"),
    Row(
        41,
        "DescribeDelegationToken",
        (
            _handler(_O.DESCRIBE, _R.DELEGATION_TOKEN, "each token of another owner"),
            _handler(_O.DESCRIBE_TOKENS, _R.USER, "or this, on its owner"),
        ),
    ),
    Row(42, "DeleteGroups", (_each(_O.DELETE, _R.GROUP, "groups_names", ""),)),
    Row(43, "ElectLeaders", (_cluster(_O.ALTER),)),
    Row(
        44,
        "IncrementalAlterConfigs",
        (
            _handler(_O.ALTER_CONFIGS, _R.TOPIC, "each topic"),
            _handler(_O.ALTER_CONFIGS, _R.CLUSTER, "each broker"),
        ),
    ),
    Row(45, "AlterPartitionReassignments", (_cluster(_O.ALTER),)),
    Row(46, "ListPartitionReassignments", (_cluster(_O.DESCRIBE),)),
    Row(47, "OffsetDelete", (_group(_O.DELETE), _each(_O.READ, _R.TOPIC, "topics"))),
    Row(48, "DescribeClientQuotas", (_cluster(_O.DESCRIBE_CONFIGS),)),
    Row(49, "AlterClientQuotas", (_cluster(_O.ALTER_CONFIGS),)),
    Row(50, "DescribeUserScramCredentials", (_cluster(_O.DESCRIBE),)),
    Row(51, "AlterUserScramCredentials", (_cluster(_O.ALTER),)),
    Row(56, "AlterPartition", (_ACTION,)),
    Row(57, "UpdateFeatures", (_cluster(_O.ALTER),)),
    Row(58, "Envelope", (_ACTION,)),
    Row(60, "DescribeCluster", note="nothing; with KIP-430 the operations that are allowed"),
    Row(61, "DescribeProducers", (_each(_O.READ, _R.TOPIC, "topics"),)),
    Row(
        65,
        "DescribeTransactions",
        (
            _each(_O.DESCRIBE, _R.TRANSACTIONAL_ID, "transactional_ids", ""),
            _handler(_O.DESCRIBE, _R.TOPIC, "each topic of a transaction; others are left out"),
        ),
    ),
    Row(
        66,
        "ListTransactions",
        (_handler(_O.DESCRIBE, _R.TRANSACTIONAL_ID, "each transaction listed"),),
    ),
    Row(67, "AllocateProducerIds", (_ACTION,)),
    Row(
        68,
        "ConsumerGroupHeartbeat",
        (
            _group(_O.READ),
            _handler(_O.DESCRIBE, _R.TOPIC, "each topic by name; others are left out of a regex"),
        ),
    ),
    Row(
        69,
        "ConsumerGroupDescribe",
        (
            _each(_O.DESCRIBE, _R.GROUP, "group_ids", ""),
            _handler(_O.DESCRIBE, _R.TOPIC, "all topics that the group's members are assigned"),
        ),
    ),
    Row(
        75,
        "DescribeTopicPartitions",
        (_handler(_O.DESCRIBE, _R.TOPIC, "each topic; others are left out of a list of all"),),
    ),
    Row(20000, "DescribeController", (_cluster(_O.DESCRIBE),), "an API of Barnabas"),
    Row(20001, "DescribeClock", (_cluster(_O.DESCRIBE),), "an API of Barnabas"),
)

ACCESS: Final = {row.number: row for row in ROWS}


def table() -> str:
    """The rows as Markdown, for docs/security.md."""
    lines = ["| API | Operation | Resource | Checked for |", "|---|---|---|---|"]
    for row in ROWS:
        api = f"{row.name} ({row.number})"
        if not row.checks:
            lines.append(f"| {api} | none | | {row.note} |")
        lines += [
            f"| {api} | {check.operation.text} | {check.resource.text} | {_checked(check)} |"
            for check in row.checks
        ]
    return "\n".join(lines)


def _checked(check: Check) -> str:
    text = check.note or "the request"
    if check.how is How.EACH:
        text = f"each {check.resource.text.lower()}"
    if check.or_cluster is not None:
        text += f"; or {check.or_cluster.text} on the cluster"
    return text
