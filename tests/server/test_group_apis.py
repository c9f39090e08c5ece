"""Groups and their offsets through every version of their APIs."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from barnabas.wire.apis import ApiKey
from tests.server.admin.client import Client, parts
from tests.server.admin.running import Running, until
from tests.server.group_members import (
    ClassicMember,
    commit,
    committed,
    coordinated,
    fetch_offsets,
    found,
    group_broker,
    new_group,
    versions,
)

GROUP_ID_NOT_FOUND, NON_EMPTY, SUBSCRIBED = 69, 68, 86
UNKNOWN_MEMBER, REBALANCING, ILLEGAL_GENERATION = 25, 27, 22
INCONSISTENT_PROTOCOL, INVALID_GROUP_ID = 23, 24


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with group_broker(tmp_path_factory.mktemp("groups")) as running:
        yield running


@pytest.fixture
def client(shared: Running) -> Iterator[Client]:
    with shared.client() as connected:
        yield connected


@pytest.fixture
def group(client: Client) -> str:
    return coordinated(client, new_group())


@pytest.fixture
def topic(client: Client) -> str:
    name = f"topic-{uuid4().hex[:8]}"
    client.create(name, partitions=2)
    return name


# -- who coordinates ---------------------------------------------------------


@pytest.mark.parametrize("version", versions(ApiKey.FIND_COORDINATOR))
def test_the_coordinator_is_found(
    shared: Running, client: Client, group: str, version: int
) -> None:
    answer = client.call(
        ApiKey.FIND_COORDINATOR, version, key=group, key_type=0, coordinator_keys=(group,)
    )
    told = answer.coordinators[0] if version >= 4 else answer
    assert (told.error_code, told.node_id, told.port) == (0, 0, shared.port)


def test_coordinators_of_several_groups_are_found_at_once(client: Client) -> None:
    groups = tuple(coordinated(client, new_group()) for _ in range(3))
    answer = client.call(ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=groups)
    codes = {each.key: int(each.error_code) for each in answer.coordinators}
    assert codes == dict.fromkeys(groups, 0)


def test_a_group_without_a_name_has_offsets_only(client: Client, topic: str) -> None:
    """As in Kafka: consumers that assign themselves need not name a group."""
    nameless = coordinated(client, "")
    assert commit(client, nameless, {(topic, 0): 7}) == {(topic, 0): 0}
    assert committed(client, nameless) == {(topic, 0): 7}
    assert delete_offsets(client, nameless, topic) == (INVALID_GROUP_ID, [])
    with ClassicMember(client, nameless) as member:
        assert member.join().error_code == INVALID_GROUP_ID
        (deleted,) = client.call(ApiKey.DELETE_GROUPS, groups_names=(nameless,)).results
        assert deleted.error_code == 0
        assert committed(client, nameless) == {}


def test_the_topic_of_groups_is_as_kafka_makes_it(client: Client, group: str) -> None:
    answer = client.call(ApiKey.METADATA, topics=(parts(name="__consumer_offsets"),))
    (offsets,) = answer.topics
    assert (offsets.is_internal, len(offsets.partitions)) == (True, 2)
    asked = parts(resource_type=2, resource_name="__consumer_offsets", configuration_keys=None)
    (described,) = client.call(ApiKey.DESCRIBE_CONFIGS, resources=(asked,)).results
    configs = {each.name: each.value for each in described.configs}
    assert configs["cleanup.policy"] == "compact"
    assert configs["compression.type"] == "producer"
    assert configs["segment.bytes"] == "104857600"


# -- classic members ---------------------------------------------------------


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
def test_two_members_join_sync_live_and_leave(shared: Running, group: str, version: int) -> None:
    with ClassicMember(shared, group) as first, ClassicMember(shared, group) as second:
        first.enter(version)
        assert first.heartbeat() == 0
        second.send_join(version)
        if version >= 4:
            assert second.receive_join().error_code == 79  # MEMBER_ID_REQUIRED
            second.send_join(version)
        until(lambda: first.heartbeat() == REBALANCING, "a rebalance")
        first.send_join(version)
        assert (first.receive_join().error_code, second.receive_join().error_code) == (0, 0)
        assert first.generation == second.generation == 2
        leader, other = (first, second) if first.leads else (second, first)
        members = [(each.member_id, each.metadata) for each in leader.joined.members]
        ids = (first.member_id, second.member_id)
        assert sorted(members) == sorted((each, b"metadata") for each in ids)
        assert not other.joined.members
        assert leader.sync({each: each.encode() for each in ids}).assignment == (
            leader.member_id.encode()
        )
        assert other.sync().assignment == other.member_id.encode()
        assert second.leave().error_code == 0
        assert second.heartbeat() == UNKNOWN_MEMBER


@pytest.mark.parametrize("version", versions(ApiKey.SYNC_GROUP))
def test_an_assignment_is_given_in_every_version(shared: Running, group: str, version: int) -> None:
    with ClassicMember(shared, group) as member:
        member.join()
        answer = member.sync({member.member_id: b"mine"}, version)
        assert (answer.error_code, answer.assignment) == (0, b"mine")
        if version >= 5:
            assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")


def test_a_member_must_name_the_protocol(shared: Running, group: str) -> None:
    with ClassicMember(shared, group) as member:
        member.enter()
        for unnamed in ({"protocol_type": None}, {"protocol_name": None}):
            assert member.sync(**unnamed).error_code == INCONSISTENT_PROTOCOL
        assert member.sync(version=4).assignment == b"mine"


@pytest.mark.parametrize("version", versions(ApiKey.HEARTBEAT))
def test_a_heartbeat_is_accepted_in_every_version(
    shared: Running, group: str, version: int
) -> None:
    with ClassicMember(shared, group) as member:
        member.enter()
        assert member.heartbeat(version) == 0
        member.generation += 1
        assert member.heartbeat(version) == ILLEGAL_GENERATION


@pytest.mark.parametrize("version", versions(ApiKey.LEAVE_GROUP))
def test_a_member_leaves_in_every_version(shared: Running, group: str, version: int) -> None:
    with ClassicMember(shared, group) as member:
        member.enter()
        answer = member.leave(version)
        assert answer.error_code == 0
        again = member.leave(version)
        code = again.members[0].error_code if version >= 3 else again.error_code
        assert code == UNKNOWN_MEMBER


def test_a_static_member_comes_back_to_what_it_had(shared: Running, group: str) -> None:
    with ClassicMember(shared, group, "one") as before, ClassicMember(shared, group, "one") as now:
        before.enter()
        assert now.join().error_code == 0
        assert (now.generation, now.member_id == before.member_id) == (1, False)
        assert now.sync().assignment == b"mine"
        assert before.heartbeat() == 82  # FENCED_INSTANCE_ID


def test_a_member_without_heartbeats_is_removed(shared: Running, group: str) -> None:
    with ClassicMember(shared, group) as member:
        member.join(session_timeout=timedelta(milliseconds=100))
        member.sync({member.member_id: b"mine"})
        until(lambda: described(member.client, group).group_state == "Empty", "its session's end")
        assert member.heartbeat() == UNKNOWN_MEMBER


# -- offsets -----------------------------------------------------------------


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT)[1:])  # 0 writes znodes
def test_offsets_are_committed_in_every_version(
    client: Client, group: str, topic: str, version: int
) -> None:
    codes = commit(
        client, group, {(topic, 0): 7, (topic, 2): 8, ("nowhere", 0): 9}, version, metadata="why"
    )
    assert codes == {(topic, 0): 0, (topic, 2): 3, ("nowhere", 0): 3}
    (told,) = fetch_offsets(client, group, None).topics
    (only,) = told.partitions
    assert (told.name, only.partition_index) == (topic, 0)
    assert (only.committed_offset, only.metadata, only.error_code) == (7, "why", 0)


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH)[1:])  # 0 reads znodes
def test_offsets_are_fetched_in_every_version(
    client: Client, group: str, topic: str, version: int
) -> None:
    commit(client, group, {(topic, 1): 5})
    answer = fetch_offsets(client, group, [(topic, (0, 1))], version)
    (told,) = answer.topics
    assert [(each.partition_index, each.committed_offset) for each in told.partitions] == [
        (0, -1),
        (1, 5),
    ]
    if version >= 2:
        assert committed(client, group, version) == {(topic, 1): 5}


def test_offsets_of_several_groups_are_fetched_at_once(client: Client, topic: str) -> None:
    groups = [coordinated(client, new_group()) for _ in range(3)]
    for offset, each in enumerate(groups):
        commit(client, each, {(topic, 0): offset})
    asked = tuple(
        parts(group_id=each, topics=None, member_id=None, member_epoch=-1) for each in groups
    )
    answer = client.call(ApiKey.OFFSET_FETCH, groups=asked)
    told = {each.group_id: each.topics[0].partitions[0].committed_offset for each in answer.groups}
    assert told == {each: offset for offset, each in enumerate(groups)}


def test_metadata_that_is_too_long_is_refused(client: Client, group: str, topic: str) -> None:
    assert commit(client, group, {(topic, 0): 1}, metadata="x" * 4097) == {(topic, 0): 12}
    assert committed(client, group) == {}


def test_only_members_of_now_commit(shared: Running, group: str, topic: str) -> None:
    with ClassicMember(shared, group) as member:
        member.enter()
        assert member.commit(topic, 3) == 0
        nobody = commit(member.client, group, {(topic, 0): 4})
        assert nobody == {(topic, 0): UNKNOWN_MEMBER}
        member.generation += 1
        assert member.commit(topic, 5) == ILLEGAL_GENERATION
        assert committed(member.client, group) == {(topic, 0): 3}


def test_a_generation_of_a_group_that_is_not_there_is_refused(client: Client, topic: str) -> None:
    group = coordinated(client, new_group())
    for version, code in ((8, ILLEGAL_GENERATION), (9, GROUP_ID_NOT_FOUND)):
        codes = commit(client, group, {(topic, 0): 1}, version, member_id="who", generation=1)
        assert codes == {(topic, 0): code}


def delete_offsets(client: Client, group: str, *topics: str) -> tuple[int, list[int]]:
    asked = tuple(parts(name=name, partitions=(parts(partition_index=0),)) for name in topics)
    answer = client.call(ApiKey.OFFSET_DELETE, group_id=group, topics=asked)
    codes = [int(each.error_code) for told in answer.topics for each in told.partitions]
    return int(answer.error_code), codes


def test_offsets_are_deleted(client: Client, group: str, topic: str) -> None:
    assert delete_offsets(client, group, topic) == (GROUP_ID_NOT_FOUND, [])
    commit(client, group, {(topic, 0): 1, (topic, 1): 2})
    assert delete_offsets(client, group, topic, "nowhere") == (0, [0, 3])
    assert committed(client, group) == {(topic, 1): 2}


def test_offsets_of_what_members_read_are_kept(shared: Running, group: str, topic: str) -> None:
    names = b"".join(len(each).to_bytes(2, "big") + each.encode() for each in (topic,))
    subscription = b"\0\0" + (1).to_bytes(4, "big") + names + b"\xff" * 4
    with ClassicMember(shared, group) as member:
        member.join(protocols=(parts(name="range", metadata=subscription),))
        member.sync({member.member_id: b"mine"})
        member.commit(topic, 1)
        assert delete_offsets(member.client, group, topic) == (0, [SUBSCRIBED])
        assert committed(member.client, group) == {(topic, 0): 1}


# -- operators ---------------------------------------------------------------


def described(client: Client, group: str, version: int | None = None) -> Any:
    (told,) = client.call(ApiKey.DESCRIBE_GROUPS, version, groups=(group,)).groups
    return told


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_GROUPS))
def test_a_group_is_described_in_every_version(shared: Running, group: str, version: int) -> None:
    with ClassicMember(shared, group) as member:
        member.enter()
        told = described(member.client, group, version)
        (only,) = told.members
        assert (told.error_code, told.group_state) == (0, "Stable")
        assert (told.protocol_type, told.protocol_data) == ("consumer", "range")
        assert (only.member_id, only.client_id) == (member.member_id, "test")
        assert (only.member_metadata, only.member_assignment) == (b"metadata", b"mine")
        assert described(member.client, new_group(), version).group_state == "Dead"


@pytest.mark.parametrize("version", versions(ApiKey.LIST_GROUPS))
def test_groups_are_listed_in_every_version(
    shared: Running, client: Client, group: str, topic: str, version: int
) -> None:
    simple = coordinated(client, new_group())
    commit(client, simple, {(topic, 0): 1})
    with ClassicMember(shared, group) as member:
        member.enter()
        answer = client.call(ApiKey.LIST_GROUPS, version)
        told = {each.group_id: each for each in answer.groups}
        assert told[group].protocol_type == "consumer"
        assert simple in told
        if version >= 4:
            assert (told[group].group_state, told[simple].group_state) == ("Stable", "Empty")
            empty = client.call(ApiKey.LIST_GROUPS, version, states_filter=("empty",)).groups
            assert simple in {each.group_id for each in empty}
            assert group not in {each.group_id for each in empty}
        if version >= 5:
            assert told[group].group_type == "classic"
            new = client.call(ApiKey.LIST_GROUPS, version, types_filter=("consumer",)).groups
            assert group not in {each.group_id for each in new}


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_GROUPS))
def test_groups_are_deleted_in_every_version(
    shared: Running, client: Client, group: str, topic: str, version: int
) -> None:
    simple, missing = coordinated(client, new_group()), coordinated(client, new_group())
    commit(client, simple, {(topic, 0): 1})
    with ClassicMember(shared, group) as member:
        member.enter()
        answer = client.call(ApiKey.DELETE_GROUPS, version, groups_names=(simple, group, missing))
        codes = {each.group_id: int(each.error_code) for each in answer.results}
        assert codes == {simple: 0, group: NON_EMPTY, missing: GROUP_ID_NOT_FOUND}
        assert committed(client, simple) == {}


# -- consumer groups ---------------------------------------------------------


@pytest.mark.parametrize("version", versions(ApiKey.CONSUMER_GROUP_HEARTBEAT))
def test_a_member_of_a_consumer_group_is_assigned_partitions_and_leaves(
    client: Client, group: str, topic: str, version: int
) -> None:
    beat = {
        "group_id": group,
        "member_id": str(uuid4()) if version else "",
        "rebalance_timeout": timedelta(seconds=10),
        "subscribed_topic_names": (topic,),
        "topic_partitions": (),
    }
    answer = client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, member_epoch=0, **beat)
    assert (answer.error_code, answer.member_epoch) == (0, 1), answer
    (assigned,) = answer.assignment.topic_partitions
    assert assigned.partitions == (0, 1)
    member_id = answer.member_id
    for described_in in versions(ApiKey.CONSUMER_GROUP_DESCRIBE):
        (told,) = client.call(
            ApiKey.CONSUMER_GROUP_DESCRIBE, described_in, group_ids=(group,)
        ).groups
        (member,) = told.members
        assert (told.error_code, told.group_epoch, member.member_id) == (0, 1, member_id)
        assert member.target_assignment.topic_partitions[0].topic_name == topic
    codes = commit(client, group, {(topic, 0): 4}, member_id=member_id, generation=1)
    assert codes == {(topic, 0): 0}
    stale = commit(client, group, {(topic, 0): 5}, member_id=member_id, generation=0)
    assert stale == {(topic, 0): 113}  # STALE_MEMBER_EPOCH
    left = client.call(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        version,
        **{**beat, "member_id": member_id, "member_epoch": -1},
    )
    assert (left.error_code, left.member_epoch) == (0, -1)
    assert committed(client, group) == {(topic, 0): 4}


def test_a_consumer_group_that_is_not_there_is_not_described(client: Client, group: str) -> None:
    (told,) = client.call(ApiKey.CONSUMER_GROUP_DESCRIBE, group_ids=(group,)).groups
    assert told.error_code == GROUP_ID_NOT_FOUND
    assert found(client, group).error_code == 0
