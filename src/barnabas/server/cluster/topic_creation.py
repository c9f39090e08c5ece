"""Topic creation: each topic is checked on its own, many are written in one transaction.

A request may name thousands of topics. They are created in parts, and between two parts other
requests get their turn.
"""

import asyncio
import logging
import math
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.base.randomness import Random
from barnabas.controller.decide.replica_assignment import Racks, assign
from barnabas.log.logs import Logs
from barnabas.server.cluster import requested_assignments as assignments
from barnabas.server.cluster.configs import Configs
from barnabas.server.cluster.metadata_cache import MetadataCache
from barnabas.server.cluster.requested_assignments import Assignment
from barnabas.server.cluster.topic_names import TopicNames, check_topic_name
from barnabas.server.cluster.tree_errors import coordinating
from barnabas.znodes import layout, paths
from barnabas.znodes.layout import TopicAssignment
from barnabas.znodes.tree import Coordination, CreateNode, NodeExists, NoNode, Operation, SetData

log = logging.getLogger("barnabas.topics")

DEFAULT: Final = -1
# Topics and partitions per transaction: it stays far below ZooKeeper's limit of one megabyte, and
# the event loop is free again after a few milliseconds.
_MOST_TOPICS: Final = 100
_MOST_PARTITIONS: Final = 1000


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic of a CreateTopics request; -1 leaves the number to the broker."""

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Assignment = field(default_factory=dict)
    overrides: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Made:
    """A topic as it was, or (None for an id) would be, written to the tree."""

    name: str
    topic_id: uuid.UUID | None
    assignment: Assignment


Creation: TypeAlias = Made | BrokerError


class _Prepared(NamedTuple):
    """A topic that may be created; `left_over` are properties of a deleted topic of this name."""

    wanted: NewTopic
    topic: TopicAssignment
    left_over: bool

    def operations(self) -> list[Operation]:
        path = paths.config_path(paths.topic_entity(self.wanted.name))
        data = layout.encode_config(self.wanted.overrides)
        return [
            SetData(path, data) if self.left_over else CreateNode(path, data),
            CreateNode(paths.topic_path(self.wanted.name), layout.encode_topic(self.topic)),
        ]


class TopicCreation:
    """Writes new topics to the tree, where the controller sees them."""

    def __init__(
        self,
        coordination: Coordination,
        random: Random,
        configs: Configs,
        logs: Logs,
        metadata: MetadataCache,
    ) -> None:
        self._coordination = coordination
        self._random = random
        self._configs = configs
        self._logs = logs
        self._metadata = metadata

    async def create(
        self, wanted: Sequence[NewTopic], *, validate_only: bool, within_ms: int | None
    ) -> list[Creation]:
        """Create each topic, or return the error for which it was not created.

        After `within_ms` no further part is begun; its topics get REQUEST_TIMED_OUT.
        """
        loop = asyncio.get_running_loop()
        end = math.inf if within_ms is None else loop.time() + within_ms / 1000
        names = TopicNames(topic.name for topic in self._metadata.topics())
        results: list[Creation] = []
        for part in self._parts(wanted):
            results += await self._create_part(part, names, validate_only)
            if loop.time() >= end:
                break
            await asyncio.sleep(0)
        if not validate_only:
            _log_created([each for each in results if isinstance(each, Made)])
        late = BrokerError(ErrorCode.request_timed_out)
        return results + [late] * (len(wanted) - len(results))

    def _parts(self, wanted: Sequence[NewTopic]) -> Iterator[list[NewTopic]]:
        part: list[NewTopic] = []
        partitions = 0
        for each in wanted:
            count = len(each.assignments) or self._partition_count(each)
            if part and (len(part) == _MOST_TOPICS or partitions + count > _MOST_PARTITIONS):
                yield part
                part, partitions = [], 0
            part.append(each)
            partitions += count
        if part:
            yield part

    async def _create_part(
        self, part: Sequence[NewTopic], names: TopicNames, validate_only: bool
    ) -> list[Creation]:
        results: dict[str, Creation] = {}
        assigned: dict[str, tuple[NewTopic, Assignment]] = {}
        try:
            with coordinating():
                racks = await self.racks()
                for each in part:
                    try:
                        assigned[each.name] = each, self._assigned(each, racks, names)
                    except BrokerError as error:
                        results[each.name] = error
                left_over = await self._left_over(assigned, results)
            prepared = self._prepare(assigned, left_over, results)
            if validate_only:
                results |= {d.wanted.name: _made(d, None) for d in prepared}
            else:
                await self._write(prepared, results)
        except BrokerError as error:  # without the tree, none of the others is created
            results |= {each.name: error for each in part if each.name not in results}
        return [results[each.name] for each in part]

    # -- decisions -----------------------------------------------------------

    def _assigned(self, wanted: NewTopic, racks: Racks, names: TopicNames) -> Assignment:
        """The brokers of each partition. Raises BrokerError if the topic cannot be created."""
        self.check_absent(wanted.name)
        assignment = wanted.assignments or self._assign(wanted, racks)
        check_topic_name(wanted.name)
        if collisions := names.colliding(wanted.name):
            raise BrokerError(
                ErrorCode.invalid_topic_exception,
                f"Topic '{wanted.name}' collides with existing topics: {', '.join(collisions)}",
            )
        assignments.check_creation(assignment, list(self._metadata.brokers))
        self._configs.check_overrides(wanted.overrides)
        names.add(wanted.name)
        return dict(sorted(assignment.items()))

    def _prepare(
        self,
        assigned: Mapping[str, tuple[NewTopic, Assignment]],
        left_over: frozenset[str],
        results: dict[str, Creation],
    ) -> list[_Prepared]:
        prepared = []
        for name, (wanted, assignment) in assigned.items():
            if name in results:
                continue
            try:
                self.check_no_log(name, assignment)
            except BrokerError as error:
                results[name] = error
                continue
            topic = TopicAssignment(assignment, self._random.uuid())
            prepared.append(_Prepared(wanted, topic, name in left_over))
        return prepared

    def _assign(self, wanted: NewTopic, racks: Racks) -> Assignment:
        replication_factor = wanted.replication_factor
        if replication_factor == DEFAULT:
            replication_factor = self._configs.broker.int("default.replication.factor")
        partitions = self._partition_count(wanted)
        assignments.check_numbers(partitions, replication_factor, len(racks))
        return assign(racks, partitions, replication_factor, self._random)

    def _partition_count(self, wanted: NewTopic) -> int:
        if wanted.partitions == DEFAULT:
            return self._configs.broker.int("num.partitions")
        return wanted.partitions

    def check_absent(self, name: str) -> None:
        """Raises BrokerError(topic_already_exists) if the metadata has such a topic."""
        if self._metadata.topic(name) is not None:
            raise _exists(name)

    def check_no_log(self, name: str, partitions: Iterable[int]) -> None:
        """Refuse a new partition whose directory exists, with records of an unknown topic.

        The tree may be lost, or the files may be another cluster's: an operator has to decide.
        """
        for index in partitions:
            if (found := self._logs.get(TopicPartition(name, index))) is not None:
                raise BrokerError(
                    ErrorCode.kafka_storage_error,
                    f"{found.disk.log_dir}/{found.directory} holds records of a topic that the "
                    f"cluster does not know; move it away to create '{name}'.",
                )

    # -- the tree ------------------------------------------------------------

    async def racks(self) -> Racks:
        """The racks of the brokers to choose from: known to us, and registered.

        The metadata may still have a broker that has just left, and a partition there would have
        no leader.
        """
        registered = await self._coordination.children(paths.BROKER_IDS)
        known = self._metadata.brokers.items()
        return {broker: image.rack for broker, image in known if str(broker) in registered}

    async def _left_over(
        self, assigned: Iterable[str], results: dict[str, Creation]
    ) -> frozenset[str]:
        """The topics whose properties the tree has; refuses topics that it has already.

        The deletion mark goes last: only without it a deletion will not take what is written now.
        """
        names = list(assigned)
        marks = await self._existing(paths.delete_topic_path(name) for name in names)
        nodes = await self._existing(paths.topic_path(name) for name in names)
        configs = await self._existing(
            paths.config_path(paths.topic_entity(name)) for name in names
        )
        for name, is_marked, exists in zip(names, marks, nodes, strict=True):
            if is_marked:
                results[name] = BrokerError(
                    ErrorCode.topic_already_exists, f"Topic '{name}' is marked for deletion."
                )
            elif exists:
                results[name] = _exists(name)
        return frozenset(name for name, is_there in zip(names, configs, strict=True) if is_there)

    async def _existing(self, nodes: Iterable[str]) -> list[bool]:
        found = await self._coordination.get_many(list(nodes))
        return [each is not None for each in found]

    async def _write(self, prepared: list[_Prepared], results: dict[str, Creation]) -> None:
        """Write all in one transaction; if that fails, each in its own."""
        try:
            with coordinating():
                await self._commit(prepared)
        except (NodeExists, NoNode):
            for each in prepared:
                results[each.wanted.name] = await self._write_alone(each)
        else:
            results |= {each.wanted.name: self._on_written(each) for each in prepared}

    async def _write_alone(self, prepared: _Prepared) -> Creation:
        config = paths.config_path(paths.topic_entity(prepared.wanted.name))
        while True:
            try:
                with coordinating():
                    (left_over,) = await self._existing([config])
                    await self._commit([prepared._replace(left_over=left_over)])
            except NodeExists:
                return _exists(prepared.wanted.name)
            except NoNode:
                continue  # the properties of the deleted topic are gone meanwhile
            except BrokerError as error:
                return error
            return self._on_written(prepared)

    async def _commit(self, prepared: Iterable[_Prepared]) -> None:
        operations = [each for topic in prepared for each in topic.operations()]
        if operations:
            await self._coordination.multi(operations)

    def _on_written(self, prepared: _Prepared) -> Made:
        self._configs.know_topic(prepared.wanted.name, prepared.wanted.overrides)
        return _made(prepared, prepared.topic.topic_id)


def _made(prepared: _Prepared, topic_id: uuid.UUID | None) -> Made:
    return Made(prepared.wanted.name, topic_id, prepared.topic.partitions)


def _log_created(made: Sequence[Made]) -> None:
    if len(made) == 1:
        log.info("created topic topic=%s partitions=%d", made[0].name, len(made[0].assignment))
    elif made:
        partitions = sum(len(each.assignment) for each in made)
        log.info(
            "created topics count=%d partitions=%d first=%s", len(made), partitions, made[0].name
        )


def _exists(name: str) -> BrokerError:
    return BrokerError(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
