"""The rights that Produce needs: WRITE to each topic, and to the transactional id."""

from barnabas.base.errors import ErrorCode
from barnabas.security.acls import Operation, ResourceType
from barnabas.security.authorizer import Authorizer
from barnabas.server.cluster.metadata_cache import is_internal
from barnabas.server.network.connection import Connection
from barnabas.server.requests.partition_append import Done
from barnabas.wire.produce.produce_codec import ProduceRequest, SinglePartition, refusal

# By topic, the error of what a client may not write.
Denied = dict[str, ErrorCode]


class ProduceAccess:
    """Asks the authorizer; without one, clients may write everything."""

    def __init__(self, authorizer: Authorizer | None) -> None:
        self._authorizer = authorizer

    def is_usual(self, single: SinglePartition, connection: Connection) -> bool:
        """True if all requests that begin like this one may take the fast path."""
        authorizer = self._authorizer
        return not is_internal(single.topic) and (
            authorizer is None
            or (
                self._may_write(authorizer, single.topic, connection)
                and self._may_use(authorizer, single.transactional_id, connection)
            )
        )

    def denied(
        self, request: ProduceRequest, connection: Connection, *, is_transactional: bool
    ) -> Denied:
        """The topics that the client may not write to: all, if it may not use its id."""
        authorizer = self._authorizer
        if authorizer is None:
            return {}
        topics = dict.fromkeys(batches.topic for batches in request.partitions)
        named = request.transactional_id if is_transactional else None
        if not self._may_use(authorizer, named, connection):
            return dict.fromkeys(topics, ErrorCode.transactional_id_authorization_failed)
        return {
            topic: ErrorCode.topic_authorization_failed
            for topic in topics
            if not self._may_write(authorizer, topic, connection)
        }

    def _may_write(self, authorizer: Authorizer, topic: str, connection: Connection) -> bool:
        return authorizer.authorize(
            connection, Operation.WRITE, ResourceType.TOPIC, topic, "Produce"
        )

    def _may_use(
        self, authorizer: Authorizer, transactional_id: str | None, connection: Connection
    ) -> bool:
        return transactional_id is None or authorizer.authorize(
            connection,
            Operation.WRITE,
            ResourceType.TRANSACTIONAL_ID,
            transactional_id,
            "Produce",
        )


def denied_first(request: ProduceRequest, denied: Denied) -> tuple[ProduceRequest, list[Done]]:
    """The request with the partitions that are refused in front, and their results."""
    refused = [each for each in request.partitions if each.topic in denied]
    others = [each for each in request.partitions if each.topic not in denied]
    done = [Done(refusal(each.partition, denied[each.topic])) for each in refused]
    return request._replace(partitions=[*refused, *others]), done
