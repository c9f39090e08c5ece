"""The records of a fetch: the state of each partition, then bytes shared among those with records.

Every partition with records gets some of them in each response, as far as `max_bytes` allows: a
client that drains its partitions together never waits for one behind the others. The first batch
of the first partition is sent however large it is, so no consumer gets stuck.
"""

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.base.failures import FailureChannel
from barnabas.base.ids import BrokerId, Offset
from barnabas.log.segment.file_slice import NOTHING, FileSlice
from barnabas.replication.leader.leader_replica import LeaderReplica
from barnabas.replication.reading import Reading
from barnabas.replication.replicas import Replicas
from barnabas.security.acls import CLUSTER_NAME, Operation, ResourceType
from barnabas.security.authorizer import Authorizer, Client
from barnabas.server.cluster.metadata_cache import MetadataCache
from barnabas.server.delayed.partition_purgatories import Delayed
from barnabas.server.fetching.cached_partitions import CachedPartition, NamedPartitions, TopicKey
from barnabas.server.fetching.fetch_sessions import FetchContext
from barnabas.server.fetching.follower_fetches import FollowerFetches
from barnabas.server.fetching.replica_selector import RackAware
from barnabas.wire.fetch.fetch_codec import (
    NO_REPLICA,
    FetchRequest,
    PartitionFetched,
    pack_partition,
)

CONSUMER: Final = -1
NOWHERE: Final = Offset(0)
FROM_FOLLOWERS_SINCE: Final = 11
# Partitions share an answer that is too small for all in parts of this size at least, which is
# what most clients ask of each: kafkajs takes much longer over many small parts.
LEAST_SHARE: Final = 1024 * 1024


class Found:
    """One partition: its part of the response without records, and where the records lie."""

    __slots__ = ("answer", "extent", "leader", "reading", "upto", "wanted")

    def __init__(
        self,
        wanted: CachedPartition,
        answer: PartitionFetched,
        leader: LeaderReplica | None = None,
        reading: Reading | None = None,
        upto: Offset = NOWHERE,
    ) -> None:
        """`reading` is None where there is nothing to read; else there is, before `upto`."""
        self.wanted = wanted
        self.answer = answer
        self.leader = leader
        self.reading = reading
        self.upto = upto
        self.extent: FileSlice = NOTHING

    @property
    def has_more(self) -> bool:
        """True if a limit or the end of a segment cut the extent off."""
        offset = self.wanted.partition.fetch_offset
        return self.reading is not None and self.reading.has_more(offset, self.upto, self.extent)


class Fetched:
    """The result of one pass over the wanted partitions."""

    __slots__ = ("found", "idle", "size", "urgent")

    def __init__(self, found: list[Found]) -> None:
        self.found = found
        self.idle: list[Found] = []  # those of a session that have nothing new
        self.size = 0
        self.urgent = False  # an error, or what waiting would not change


class FetchCollector:
    """Reads partitions that this broker leads; for consumers also those that it follows."""

    def __init__(
        self,
        replicas: Replicas,
        metadata: MetadataCache,
        delayed: Delayed,
        follower_fetches: FollowerFetches,
        max_bytes: int,
        failures: FailureChannel,
        selector: RackAware | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        self._replicas = replicas
        self._leader_of = replicas.leader_of
        self._metadata = metadata
        self._delayed = delayed
        self._follower_fetches = follower_fetches
        self.max_bytes = max_bytes
        self._failures = failures
        self.selector = selector
        self._authorizer = authorizer

    def collect(
        self, request: FetchRequest, context: FetchContext, version: int, client: Client
    ) -> Fetched:
        """Locate the records of each wanted partition, as far as the limits allow."""
        fetched = Fetched([self._look(each, request, version, client) for each in context.wanted])
        self._locate(fetched.found, 0, request, fetched)
        return fetched

    def collect_part(
        self,
        fetched: Fetched,
        part: Sequence[CachedPartition],
        behind: int,
        request: FetchRequest,
        version: int,
        client: Client,
    ) -> list[Found]:
        """The same for a part of the wanted partitions, with so many `behind` it.

        Those may all have records: their shares are left for them.
        """
        part_found = [self._look(each, request, version, client) for each in part]
        self._locate(part_found, behind, request, fetched)
        fetched.found += part_found
        return part_found

    def _locate(
        self, part: Sequence[Found], behind: int, request: FetchRequest, fetched: Fetched
    ) -> None:
        hungry = []
        for found in part:
            answer = found.answer
            if found.reading is not None:
                hungry.append(found)
            elif (
                answer.code or answer.diverging_epoch or answer.preferred_read_replica != NO_REPLICA
            ):
                fetched.urgent = True
            elif found.wanted.session is not None:
                fetched.idle.append(found)
        if hungry:
            self._share(hungry, behind, request, fetched)

    def rest(self, fetched: Fetched, request: FetchRequest, version: int) -> None:
        """Let partitions with nothing new rest until they change."""
        if self.selector and request.rack_id:
            return  # the replica to read from may change without an event
        for found in fetched.idle:
            self._rest(found, request.replica_id, version)

    def note_follower(
        self,
        request: FetchRequest,
        wanted: Iterable[CachedPartition],
        arrived_ms: float | None = None,
    ) -> None:
        """Note a follower's progress by the offsets that it fetches from; see `FollowerFetches`."""
        led = []
        for each in wanted:
            leader = self._leader(each)
            if leader is not None:
                led.append((leader, each.partition))
        self._follower_fetches.on_fetch(request.replica_id, led, arrived_ms)

    def now_ms(self) -> float:
        """When a fetch arrives."""
        return self._follower_fetches.now_ms()

    def on_sent(self, fetched: Fetched) -> None:
        """Count what a follower is sent, for the throttle."""
        for found in fetched.found:
            if found.extent.size and found.wanted.key is not None:
                self._follower_fetches.on_sent(*found.wanted.key, found.extent.size)

    def _rest(self, found: Found, replica_id: int, version: int) -> None:
        """Rest if the client has all of the partition and was sent its offsets."""
        wanted, answer, leader = found.wanted, found.answer, found.leader
        if not wanted.is_sent(answer.high_watermark, answer.log_start_offset):
            return
        if replica_id < 0:
            if isinstance(wanted.session, NamedPartitions):
                wanted.packed = pack_partition(version, answer)
            wanted.rest(self._delayed.consumers, None)
        elif leader is not None and replica_id in leader.isr:
            # One that is out of sync is looked at with each fetch: it may be let in by it. One
            # whose offset this leader does not know yet has to fetch once more.
            follower = leader.follower(replica_id)
            if follower is not None and follower.log_end_offset == wanted.partition.fetch_offset:
                wanted.rest(self._delayed.followers, follower)

    # -- sharing -------------------------------------------------------------

    def _share(
        self, hungry: Sequence[Found], behind: int, request: FetchRequest, fetched: Fetched
    ) -> None:
        """Give each partition its part of the answer; what one leaves is for those behind it."""
        left = min(request.max_bytes, self.max_bytes) - fetched.size
        for sharing, found in zip(range(behind + len(hungry), behind, -1), hungry, strict=True):
            if fetched.size and left <= 0:
                break
            self._give(found, max(LEAST_SHARE, left // sharing), left, request, fetched)
            left -= found.extent.size
        if fetched.size < request.min_bytes:
            fetched.urgent = fetched.urgent or any(found.has_more for found in hungry)

    def _give(
        self, found: Found, share: int, left: int, request: FetchRequest, fetched: Fetched
    ) -> None:
        """Locate whole batches of a partition: one at least, if the limits allow it."""
        reading, partition = found.reading, found.wanted.partition
        if reading is None or self._must_wait(found.leader, request):
            found.reading = None
            return
        most = min(partition.max_bytes, left)
        offset = Offset(partition.fetch_offset)
        try:
            extent = reading.log.locate(offset, min(most, share), found.upto, minimum_one=True)
            if extent.size and request.read_committed:
                found.answer = _with_aborted(found.answer, reading, offset, found.upto, extent)
        except BrokerError as e:
            self._fail(found, e.code, fetched)
            return
        except DiskFault as fault:
            self._failures.disk_failed(fault)
            self._fail(found, ErrorCode.kafka_storage_error, fetched)
            return
        if extent.size <= most or not fetched.size:
            found.extent = extent
            fetched.size += extent.size

    def _fail(self, found: Found, code: ErrorCode, fetched: Fetched) -> None:
        found.answer = PartitionFetched(found.wanted.partition.partition, int(code))
        found.reading = None
        fetched.urgent = True

    def _must_wait(self, leader: LeaderReplica | None, request: FetchRequest) -> bool:
        replica = request.replica_id
        return replica >= 0 and (
            leader is not None and self._follower_fetches.must_wait(leader, replica)
        )

    # -- looking -------------------------------------------------------------

    def may_read(self, topic: TopicKey, client: Client) -> bool:
        """True if the ACLs of now let a consumer read the topic."""
        if self._authorizer is None:
            return True
        name = topic if isinstance(topic, str) else self._metadata.name_of(topic)
        return name is None or self._authorizer.authorize(
            client, Operation.READ, ResourceType.TOPIC, name, "Fetch"
        )

    def may_follow(self, client: Client) -> bool:
        """True if the client may fetch as a follower: a replica id is easily forged."""
        return self._authorizer is None or self._authorizer.authorize(
            client, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME, "Fetch"
        )

    def _may(self, topic: TopicKey, replica_id: int, client: Client) -> bool:
        return self.may_follow(client) if replica_id >= 0 else self.may_read(topic, client)

    def _look(
        self, wanted: CachedPartition, request: FetchRequest, version: int, client: Client
    ) -> Found:
        """The state of one partition; no record is located yet."""
        partition, offset = wanted.partition, wanted.partition.fetch_offset
        try:
            if self._authorizer is not None and not self._may(
                wanted.topic, request.replica_id, client
            ):
                raise BrokerError(ErrorCode.topic_authorization_failed)
            leader, reading = self._find(wanted, request, version)
            reading.check_epoch(partition.current_leader_epoch)
            if leader is not None and request.replica_id >= 0:
                leader.check_follower(request.replica_id, partition.current_leader_epoch)
            log, stable = reading.log, reading.last_stable_offset
            answer = PartitionFetched(
                partition.partition,
                0,
                reading.high_watermark,
                stable,
                log.log_start_offset,
                b"",
                () if request.read_committed else None,
            )
            if (better := self._better_replica(leader, request, offset)) is not None:
                return Found(wanted, answer._replace(preferred_read_replica=better))
            diverging = reading.diverging_epoch(partition.last_fetched_epoch, offset)
            if diverging is not None:
                return Found(wanted, answer._replace(diverging_epoch=diverging))
            upto = _readable(reading, stable, request)
            log.check_range(Offset(offset))
            if offset >= upto:
                return Found(wanted, answer, leader)  # as in most partitions of most fetches
            return Found(wanted, answer, leader, reading, upto)
        except BrokerError as e:
            return Found(wanted, PartitionFetched(partition.partition, int(e.code)))

    def _find(
        self, wanted: CachedPartition, request: FetchRequest, version: int
    ) -> tuple[LeaderReplica | None, Reading]:
        """The replica to read from: the leader, or a follower where that will do."""
        leader = self._leader(wanted)
        if leader is not None:
            return leader, leader.reading
        if wanted.key is None:
            raise BrokerError(ErrorCode.unknown_topic_id)
        if self._leader_of(wanted.key) is not None:
            raise BrokerError(ErrorCode.inconsistent_topic_id)
        if request.replica_id < 0 and version >= FROM_FOLLOWERS_SINCE:
            follower = self._replicas.follower(*wanted.key)
            if follower is not None:
                if not _is_meant(wanted.topic, follower.topic_id):
                    raise BrokerError(ErrorCode.inconsistent_topic_id)
                return None, Reading(follower.log, follower.high_watermark, follower.epoch)
        raise BrokerError(self._replicas.why_not(*wanted.key))

    def _leader(self, wanted: CachedPartition) -> LeaderReplica | None:
        """The leader of this very topic's partition, if it is here."""
        topic, key = wanted.topic, wanted.key
        leader = None if key is None else self._leader_of(key)
        if leader is not None and (topic is leader.topic_id or _is_meant(topic, leader.topic_id)):
            return leader
        wanted.stir()  # it listens under the key of before
        name = topic if isinstance(topic, str) else self._metadata.name_of(topic)
        wanted.key = None if name is None else (name, wanted.partition.partition)
        leader = None if wanted.key is None else self._leader_of(wanted.key)
        if leader is None or not _is_meant(topic, leader.topic_id):
            return None
        if not isinstance(topic, str) and leader.topic_id is not None:
            wanted.topic = leader.topic_id  # equal, and from now on the same object
        return leader

    def _better_replica(
        self, leader: LeaderReplica | None, request: FetchRequest, offset: int
    ) -> BrokerId | None:
        if leader is None or self.selector is None or request.replica_id != CONSUMER:
            return None
        return self.selector.select(leader, request.rack_id, offset)


def _with_aborted(
    answer: PartitionFetched, reading: Reading, offset: Offset, upto: Offset, extent: FileSlice
) -> PartitionFetched:
    """With the aborted transactions among the records, from the log that these are read from."""
    aborted = reading.log.aborted_transactions(offset, upto, extent)
    if not aborted:
        return answer
    return answer._replace(aborted=tuple(each[:2] for each in aborted))


def _is_meant(topic: TopicKey, topic_id: UUID | None) -> bool:
    """True if a replica is of the topic that was asked for.

    A topic that was deleted and created again can be here before the metadata has its id.
    """
    return isinstance(topic, str) or topic_id is None or topic == topic_id


def _readable(reading: Reading, stable: Offset, request: FetchRequest) -> Offset:
    """How far the reader may read: only followers up to the end of the log."""
    if request.replica_id >= 0:
        return reading.log.log_end_offset
    return stable if request.read_committed else reading.high_watermark
