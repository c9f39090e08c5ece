"""A request of every API, which names topic t, group g, transaction x and so on."""

import uuid
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from barnabas.wire.apis import ApiKey


def of(**fields: Any) -> Any:
    """A part of a request; missing fields have Kafka's default."""
    return SimpleNamespace(**fields)


SOON = timedelta(seconds=5)
PARTITION = of(partition_index=0, partition=0, leader_epoch=0, timestamp=-1, offset=0)
TOPIC = of(name="t", topic="t", partitions=(PARTITION,), partition_indexes=(0,), count=2)
CONFIG = of(resource_type=2, resource_name="t", configs=())
ACL = of(
    resource_type=2,
    resource_name="t",
    resource_pattern_type=3,
    principal="User:new",
    host="*",
    operation=3,
    permission_type=3,
)
ANY_ACL = of(
    resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1,
    principal_filter="User:none",
)  # fmt: skip


def requests(topic_id: uuid.UUID) -> dict[ApiKey, Any]:
    """By API, but for Produce and Fetch, which take bytes."""
    group = of(group_id="g", member_id="", protocol_type="consumer")
    return {
        ApiKey.LIST_OFFSETS: of(replica_id=-1, topics=(TOPIC,)),
        ApiKey.METADATA: of(topics=(of(name="t"),), allow_auto_topic_creation=False),
        ApiKey.LEADER_AND_ISR: of(controller_id=0, controller_epoch=0),
        ApiKey.STOP_REPLICA: of(controller_id=0, controller_epoch=0),
        ApiKey.UPDATE_METADATA: of(controller_id=0, controller_epoch=0),
        ApiKey.CONTROLLED_SHUTDOWN: of(broker_id=9, broker_epoch=0),
        ApiKey.OFFSET_COMMIT: of(group_id="g", generation_id_or_member_epoch=-1, topics=(TOPIC,)),
        ApiKey.OFFSET_FETCH: of(groups=(of(group_id="g", topics=(TOPIC,)),)),
        ApiKey.FIND_COORDINATOR: of(key_type=0, coordinator_keys=("g",)),
        ApiKey.JOIN_GROUP: group,
        ApiKey.HEARTBEAT: group,
        ApiKey.LEAVE_GROUP: group,
        ApiKey.SYNC_GROUP: group,
        ApiKey.DESCRIBE_GROUPS: of(groups=("g",)),
        ApiKey.LIST_GROUPS: of(),
        ApiKey.CREATE_TOPICS: of(
            topics=(of(name="new", num_partitions=1, replication_factor=1),),
            timeout=SOON,
            validate_only=True,
        ),
        ApiKey.DELETE_TOPICS: of(topics=(of(name="absent"),), timeout=SOON),
        ApiKey.DELETE_RECORDS: of(topics=(TOPIC,), timeout=SOON),
        ApiKey.INIT_PRODUCER_ID: of(producer_id=-1, producer_epoch=-1),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: of(replica_id=-1, topics=(TOPIC,)),
        ApiKey.ADD_PARTITIONS_TO_TXN: of(transactions=()),
        ApiKey.ADD_OFFSETS_TO_TXN: of(transactional_id="x", group_id="g", producer_id=0),
        ApiKey.END_TXN: of(transactional_id="x", producer_id=0),
        ApiKey.WRITE_TXN_MARKERS: of(
            markers=(of(producer_id=1, topics=(of(name="none", partition_indexes=(0,)),)),)
        ),
        ApiKey.TXN_OFFSET_COMMIT: of(
            transactional_id="x", group_id="g", producer_id=0, generation_id=-1, topics=(TOPIC,)
        ),
        ApiKey.DESCRIBE_TRANSACTIONS: of(transactional_ids=("x",)),
        ApiKey.LIST_TRANSACTIONS: of(duration_filter=-1),
        ApiKey.UPDATE_FEATURES: of(timeout=SOON, validate_only=True),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: of(users=None),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: of(deletions=(of(name="none", mechanism=1),)),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: of(components=()),
        ApiKey.ALTER_CLIENT_QUOTAS: of(
            entries=(of(entity=(of(entity_type="user", entity_name="u"),), ops=()),),
            validate_only=True,
        ),
        ApiKey.DESCRIBE_ACLS: ANY_ACL,
        ApiKey.CREATE_ACLS: of(creations=(ACL,)),
        ApiKey.DELETE_ACLS: of(filters=(ANY_ACL,)),
        ApiKey.DESCRIBE_CONFIGS: of(resources=(CONFIG,)),
        ApiKey.ALTER_CONFIGS: of(resources=(CONFIG,), validate_only=True),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: of(resources=(CONFIG,), validate_only=True),
        ApiKey.ALTER_REPLICA_LOG_DIRS: of(
            dirs=(of(path="/none", topics=(of(name="t", partitions=(0,)),)),)
        ),
        ApiKey.DESCRIBE_LOG_DIRS: of(topics=(of(topic="t", partitions=(0,)),)),
        ApiKey.CREATE_PARTITIONS: of(topics=(TOPIC,), timeout=SOON, validate_only=True),
        ApiKey.CREATE_DELEGATION_TOKEN: of(renewers=(), max_lifetime_ms=-1),
        ApiKey.RENEW_DELEGATION_TOKEN: of(hmac=b"h", renew_period_ms=-1),
        ApiKey.EXPIRE_DELEGATION_TOKEN: of(hmac=b"h", expiry_time_period_ms=-1),
        ApiKey.DESCRIBE_DELEGATION_TOKEN: of(owners=None),
        ApiKey.DELETE_GROUPS: of(groups_names=("g",)),
        ApiKey.ELECT_LEADERS: of(
            election_type=0, topic_partitions=(of(topic="t", partitions=(0,)),)
        ),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: of(topics=()),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: of(topics=None),
        ApiKey.OFFSET_DELETE: of(group_id="g", topics=(TOPIC,)),
        ApiKey.ALTER_PARTITION: of(broker_id=9, broker_epoch=0, topics=()),
        ApiKey.DESCRIBE_CLUSTER: of(),
        ApiKey.DESCRIBE_PRODUCERS: of(topics=(TOPIC,)),
        ApiKey.ALLOCATE_PRODUCER_IDS: of(broker_id=0, broker_epoch=0),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: group,
        ApiKey.CONSUMER_GROUP_DESCRIBE: of(group_ids=("g",)),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: of(topics=(of(name="t"),)),
        ApiKey.DESCRIBE_CONTROLLER: of(),
        ApiKey.DESCRIBE_CLOCK: of(),
    }
