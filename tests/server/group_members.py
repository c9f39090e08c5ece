"""Members of groups that speak the protocol themselves, each in the versions a test wants."""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from barnabas.wire.apis import APIS, ApiKey
from tests.server.admin.client import Client, parts
from tests.server.admin.running import HastyDisk, Running, broker, until

SESSION: Final = timedelta(seconds=10)
LOADING, NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16


@contextmanager
def group_broker(folder: Path, **properties: str) -> Iterator[Running]:
    """A broker with few partitions for groups, where none waits for others to come."""
    quick = {
        "group_initial_rebalance_delay_ms": "0",
        "offsets_topic_num_partitions": "2",
        "group_min_session_timeout_ms": "100",
        **properties,
    }
    with broker(folder, disk=HastyDisk, **quick) as running:
        yield running


def new_group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


def versions(key: ApiKey) -> range:
    return range(APIS[key].lowest, APIS[key].highest + 1)


def coordinated(client: Client, group: str) -> str:
    """The group's name, when its coordinator is there and has read what it has to."""

    def is_loaded() -> bool:
        return bool(fetch_offsets(client, group, None).error_code == 0)

    until(lambda: found(client, group).error_code == 0, "a coordinator")
    until(is_loaded, "a coordinator that has loaded")
    return group


def found(client: Client, group: str) -> Any:
    (answer,) = client.call(
        ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=(group,)
    ).coordinators
    return answer


class ClassicMember:
    """One connection and what its member was told last."""

    def __init__(self, running: Running | Client, group: str, instance: str | None = None) -> None:
        self.client = running if isinstance(running, Client) else running.client()
        self.group = group
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self.joined: Any = None
        self._version = APIS[ApiKey.JOIN_GROUP].highest

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.client.close()

    def send_join(self, version: int | None = None, **fields: object) -> None:
        self._version = APIS[ApiKey.JOIN_GROUP].highest if version is None else version
        wanted = {
            "group_id": self.group,
            "session_timeout": SESSION,
            "rebalance_timeout": SESSION,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "protocol_type": "consumer",
            "protocols": (parts(name="range", metadata=b"metadata"),),
            **fields,
        }
        self.client.send(ApiKey.JOIN_GROUP, self._version, **wanted)

    def receive_join(self) -> Any:
        self.joined = self.client.receive(ApiKey.JOIN_GROUP, self._version)
        self.member_id = self.joined.member_id or self.member_id
        self.generation = self.joined.generation_id
        return self.joined

    def join(self, version: int | None = None, **fields: object) -> Any:
        """Ask once more where an id is given first."""
        self.send_join(version, **fields)
        if self.receive_join().error_code == 79:
            self.send_join(version, **fields)
            self.receive_join()
        return self.joined

    @property
    def leads(self) -> bool:
        return bool(self.joined.leader == self.member_id)

    def sync(
        self,
        assignments: Mapping[str, bytes] | None = None,
        version: int | None = None,
        **fields: object,
    ) -> Any:
        wanted = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": tuple(
                parts(member_id=member, assignment=assignment)
                for member, assignment in (assignments or {}).items()
            ),
            **fields,
        }
        return self.client.call(ApiKey.SYNC_GROUP, version, **wanted)

    def enter(self, version: int | None = None) -> None:
        """Join and be assigned something, as the only member."""
        assert self.join(version).error_code == 0, self.joined
        assert self.sync({self.member_id: b"mine"}).assignment == b"mine"

    def heartbeat(self, version: int | None = None) -> int:
        answer = self.client.call(
            ApiKey.HEARTBEAT,
            version,
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        return int(answer.error_code)

    def leave(self, version: int | None = None) -> Any:
        leaving = parts(member_id=self.member_id, group_instance_id=self.instance)
        return self.client.call(
            ApiKey.LEAVE_GROUP,
            version,
            group_id=self.group,
            member_id=self.member_id,
            members=(leaving,),
        )

    def commit(self, topic: str, offset: int) -> int:
        return commit(
            self.client,
            self.group,
            {(topic, 0): offset},
            member_id=self.member_id,
            generation=self.generation,
            instance=self.instance,
        )[topic, 0]


def commit(
    client: Client,
    group: str,
    offsets: Mapping[tuple[str, int], int],
    version: int | None = None,
    *,
    member_id: str = "",
    generation: int = -1,
    instance: str | None = None,
    metadata: str = "",
    retention: timedelta = timedelta(milliseconds=-1),
) -> dict[tuple[str, int], int]:
    """The code that each partition's commit is answered with."""
    topics = dict.fromkeys(topic for topic, _ in offsets)
    answer = client.call(
        ApiKey.OFFSET_COMMIT,
        version,
        group_id=group,
        generation_id_or_member_epoch=generation,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance,
        retention_time=retention,
        topics=tuple(
            parts(
                name=topic,
                partitions=tuple(
                    parts(
                        partition_index=index,
                        committed_offset=offset,
                        committed_leader_epoch=-1,
                        committed_metadata=metadata,
                    )
                    for (of, index), offset in offsets.items()
                    if of == topic
                ),
            )
            for topic in topics
        ),
    )
    return {
        (topic.name, each.partition_index): int(each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    }


def fetch_offsets(
    client: Client,
    group: str,
    wanted: Iterable[tuple[str, Iterable[int]]] | None,
    version: int | None = None,
) -> Any:
    """The answer for one group, in whichever form the version has."""
    version = APIS[ApiKey.OFFSET_FETCH].highest if version is None else version
    topics = None
    if wanted is not None:
        topics = tuple(parts(name=name, partition_indexes=tuple(all_)) for name, all_ in wanted)
    one = parts(group_id=group, topics=topics, member_id=None, member_epoch=-1)
    answer = client.call(ApiKey.OFFSET_FETCH, version, groups=(one,), group_id=group, topics=topics)
    return answer.groups[0] if version >= 8 else answer


def committed(client: Client, group: str, version: int | None = None) -> dict[tuple[str, int], int]:
    """All that a group has committed."""
    answer = fetch_offsets(client, group, None, version)
    assert answer.error_code == 0, answer
    return {
        (topic.name, each.partition_index): each.committed_offset
        for topic in answer.topics
        for each in topic.partitions
    }
