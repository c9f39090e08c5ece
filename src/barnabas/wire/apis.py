"""The Kafka APIs that are served, their versions, and the first flexible version of each.

The ranges are those a Kafka 3.9 broker advertises, from the lowest version that
the schemas know; DescribeTopicPartitions is one it has only without ZooKeeper,
and the controller's requests about partitions are served from Kafka 2.4 on.
The versions of Produce and Fetch before record batches are rewritten to the
first with them (`old_formats`), whose number is their `lowest`.
"""

import enum
from typing import Final, NamedTuple


class ApiKey(enum.IntEnum):
    """The number of each API; the member's name is kio's name of its schema, in capitals."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    DESCRIBE_TOPIC_PARTITIONS = 75
    DESCRIBE_CONTROLLER = 20000
    DESCRIBE_CLOCK = 20001


class Api(NamedTuple):
    """One API: the versions its handler serves, both ends included, and the first flexible one.

    Versions from `advertised_lowest` to `lowest` are rewritten for the handler.
    """

    lowest: int
    highest: int
    flexible: int
    advertised_lowest: int

    def serves(self, version: int) -> bool:
        return self.lowest <= version <= self.highest


def _api(lowest: int, highest: int, flexible: int, advertised_lowest: int | None = None) -> Api:
    return Api(
        lowest, highest, flexible, lowest if advertised_lowest is None else advertised_lowest
    )


APIS: Final = {
    ApiKey.PRODUCE: _api(3, 12, 9, advertised_lowest=0),
    ApiKey.FETCH: _api(4, 17, 12, advertised_lowest=0),
    ApiKey.LIST_OFFSETS: _api(0, 9, 6),
    ApiKey.METADATA: _api(0, 12, 9),
    ApiKey.LEADER_AND_ISR: _api(4, 7, 4),
    ApiKey.STOP_REPLICA: _api(3, 4, 2),
    ApiKey.UPDATE_METADATA: _api(6, 8, 6),
    ApiKey.CONTROLLED_SHUTDOWN: _api(3, 3, 3),
    ApiKey.OFFSET_COMMIT: _api(0, 9, 8),
    ApiKey.OFFSET_FETCH: _api(0, 9, 6),
    ApiKey.FIND_COORDINATOR: _api(0, 6, 3),
    ApiKey.JOIN_GROUP: _api(0, 9, 6),
    ApiKey.HEARTBEAT: _api(0, 4, 4),
    ApiKey.LEAVE_GROUP: _api(0, 5, 4),
    ApiKey.SYNC_GROUP: _api(0, 5, 4),
    ApiKey.DESCRIBE_GROUPS: _api(0, 5, 5),
    ApiKey.LIST_GROUPS: _api(0, 5, 3),
    ApiKey.SASL_HANDSHAKE: _api(0, 1, 2),
    ApiKey.API_VERSIONS: _api(0, 4, 3),
    ApiKey.CREATE_TOPICS: _api(0, 7, 5),
    ApiKey.DELETE_TOPICS: _api(0, 6, 4),
    ApiKey.DELETE_RECORDS: _api(0, 2, 2),
    ApiKey.INIT_PRODUCER_ID: _api(0, 5, 2),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _api(0, 4, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: _api(0, 5, 3),
    ApiKey.ADD_OFFSETS_TO_TXN: _api(0, 4, 3),
    ApiKey.END_TXN: _api(0, 5, 3),
    ApiKey.WRITE_TXN_MARKERS: _api(0, 2, 1),
    ApiKey.TXN_OFFSET_COMMIT: _api(0, 5, 3),
    ApiKey.DESCRIBE_ACLS: _api(0, 3, 2),
    ApiKey.CREATE_ACLS: _api(0, 3, 2),
    ApiKey.DELETE_ACLS: _api(0, 3, 2),
    ApiKey.DESCRIBE_CONFIGS: _api(0, 4, 4),
    ApiKey.ALTER_CONFIGS: _api(0, 2, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _api(0, 2, 2),
    ApiKey.DESCRIBE_LOG_DIRS: _api(0, 4, 2),
    ApiKey.SASL_AUTHENTICATE: _api(0, 2, 2),
    ApiKey.CREATE_PARTITIONS: _api(0, 3, 2),
    ApiKey.CREATE_DELEGATION_TOKEN: _api(0, 3, 2),
    ApiKey.RENEW_DELEGATION_TOKEN: _api(0, 2, 2),
    ApiKey.EXPIRE_DELEGATION_TOKEN: _api(0, 2, 2),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _api(0, 3, 2),
    ApiKey.DELETE_GROUPS: _api(0, 2, 2),
    ApiKey.ELECT_LEADERS: _api(0, 2, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _api(0, 1, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _api(0, 0, 0),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _api(0, 0, 0),
    ApiKey.OFFSET_DELETE: _api(0, 0, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _api(0, 0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _api(0, 0, 0),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _api(0, 1, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: _api(0, 1, 1),
    ApiKey.ALTER_PARTITION: _api(0, 3, 0),
    ApiKey.UPDATE_FEATURES: _api(0, 1, 0),
    ApiKey.DESCRIBE_CLUSTER: _api(0, 1, 0),
    ApiKey.DESCRIBE_PRODUCERS: _api(0, 0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: _api(0, 0, 0),
    ApiKey.LIST_TRANSACTIONS: _api(0, 1, 0),
    ApiKey.ALLOCATE_PRODUCER_IDS: _api(0, 0, 0),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _api(0, 1, 0),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _api(0, 1, 0),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _api(0, 0, 0),
    ApiKey.DESCRIBE_CONTROLLER: _api(0, 0, 0),
    ApiKey.DESCRIBE_CLOCK: _api(0, 0, 0),
}
# APIs of our own are not advertised: clients would confuse their numbers with Kafka's.
UNADVERTISED: Final = (ApiKey.DESCRIBE_CONTROLLER, ApiKey.DESCRIBE_CLOCK)
