"""Which of the APIs on the wire a broker answers, and which of those it tells of."""

from barnabas.wire.apis import APIS, UNADVERTISED, ApiKey

# The wire knows these already; a broker that gets a handler for one must leave the list.
UNANSWERED = (
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.ELECT_LEADERS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.ALTER_PARTITION,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.DESCRIBE_CONTROLLER,
)
ANSWERED = {key: api for key, api in APIS.items() if key not in UNANSWERED}
ADVERTISED = {key: api for key, api in ANSWERED.items() if key not in UNADVERTISED}
