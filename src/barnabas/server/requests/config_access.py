"""The right to describe or alter the configs of a resource: a topic, a broker, its loggers."""

from barnabas.security.acls import CLUSTER_NAME, Operation, ResourceType
from barnabas.server.cluster.config_admin import BROKER, BROKER_LOGGER, TOPIC
from barnabas.server.requests.access import Access, check


def check_config(access: Access, operation: Operation, kind: int, name: str) -> None:
    """Raises BrokerError unless the client may; the handler refuses other kinds of resources."""
    if kind == TOPIC:
        check(access, operation, ResourceType.TOPIC, name)
    elif kind in (BROKER, BROKER_LOGGER):
        check(access, operation, ResourceType.CLUSTER, CLUSTER_NAME)
