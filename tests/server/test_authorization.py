"""Every API and a principal without rights, and with exactly the right that Kafka asks for.

Principals here differ by their host: every address of the loopback network is one.
"""

import asyncio
import dataclasses
import logging
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.client.requests import read_response, write_request
from barnabas.security.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from barnabas.server.requests.access import NOT_ASKED
from barnabas.server.requests.api_access import ACCESS, table
from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.schema import adapt, request_type
from tests.server.api_requests import of, requests
from tests.server.raw import Insight, RawClient, batch, fetch, produce, until, with_broker

ONE_COORDINATOR = {
    "offsets_topic_replication_factor": 1,
    "offsets_topic_num_partitions": 1,
}
AUTHORIZER = {"authorizer_class_name": "kafka.security.authorizer.AclAuthorizer"}
ADMIN, PLAIN = "127.0.0.3", "127.0.0.2"
NAMES = {
    ResourceType.TOPIC: "t",
    ResourceType.GROUP: "g",
    ResourceType.CLUSTER: CLUSTER_NAME,
    ResourceType.TRANSACTIONAL_ID: "x",
}
REFUSALS = {
    ErrorCode.topic_authorization_failed,
    ErrorCode.group_authorization_failed,
    ErrorCode.cluster_authorization_failed,
    ErrorCode.transactional_id_authorization_failed,
    ErrorCode.delegation_token_authorization_failed,
    ErrorCode.delegation_token_request_not_allowed,
}
# Their tests are below, or they disclose nothing and refuse nothing.
APART = {
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
}
# Nobody may ask about tokens whom nobody vouches for, whatever the ACLs say; the rights of others
# are in security/test_delegation_tokens.py.
TOKENS = {
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
}
NEVER_REFUSED = {ApiKey.DESCRIBE_CLUSTER, ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS}
# The names in a request that are not the usual ones.
OTHER_NAMES = {ApiKey.CREATE_TOPICS: "new", ApiKey.DELETE_TOPICS: "absent"}


def allow(
    operation: Operation,
    type_: ResourceType,
    name: str | None = None,
    host: str = PLAIN,
    permission: Permission = Permission.ALLOW,
    pattern: PatternType = PatternType.LITERAL,
) -> Acl:
    resource = ResourcePattern(type_, name or NAMES[type_], pattern)
    return Acl(resource, Entry("User:ANONYMOUS", host, operation, permission))


async def grant(broker: Insight, *acls: Acl) -> None:
    assert await broker.running.broker.check_acls().create(acls) == [None] * len(acls)


async def revoke_all(broker: Insight, host: str = PLAIN) -> None:
    await broker.running.broker.check_acls().delete([AclFilter(host=host)])


async def ask(client: RawClient, key: ApiKey, fields: Any, version: int | None = None) -> Any:
    version = APIS[key].highest if version is None else version
    message = adapt(fields, request_type(key, version))
    await client.send(write_request(key, version, 1, "test", message))
    return read_response(key, version, memoryview(await client.receive())[4:])


def codes(answer: Any) -> Iterator[ErrorCode]:
    """Every error in a response."""
    for field in dataclasses.fields(answer):
        value = getattr(answer, field.name)
        if field.name in ("error_code", "partition_error_code"):
            yield ErrorCode(value)
        for item in value if isinstance(value, tuple) else ():
            if dataclasses.is_dataclass(item):
                yield from codes(item)


def refusals(answer: Any) -> set[ErrorCode]:
    return REFUSALS & set(codes(answer))


async def coordinated(broker: Insight, client: RawClient) -> None:
    """Wait until group g has a coordinator."""
    rights = [allow(Operation.DESCRIBE, ResourceType.GROUP)]
    await grant(broker, *rights)
    wanted = of(key_type=0, coordinator_keys=("g",))
    async with asyncio.timeout(20):
        while set(codes(await ask(client, ApiKey.FIND_COORDINATOR, wanted))) != {ErrorCode.none}:  # noqa: ASYNC110 - the client asks again
            await asyncio.sleep(0.01)
        fetched = requests(uuid.UUID(int=1))[ApiKey.OFFSET_FETCH]
        while ErrorCode.topic_authorization_failed not in codes(  # noqa: ASYNC110 - the client asks again
            await ask(client, ApiKey.OFFSET_FETCH, fetched)
        ):
            await asyncio.sleep(0.01)
    await revoke_all(broker)


async def state(broker: Insight) -> Any:
    """The state that a request could change."""
    parts = broker.running.broker
    return (
        [(t.name, t.topic_id, sorted(t.partitions)) for t in parts.metadata.topics()],
        list(parts.check_acls().find(AclFilter())),
        broker.leader("t").log.log_end_offset,
        broker.leader("t").log.log_start_offset,
        parts.producer_ids,
    )


def test_s28_the_table_has_every_api_that_is_served() -> None:
    assert set(map(int, APIS)) <= ACCESS.keys()
    assert list(ACCESS) == sorted(ACCESS)


def test_s28_the_page_of_security_has_the_table() -> None:
    assert table() in Path("docs/security.md").read_text("utf-8")


def test_s28_without_rights_every_api_refuses_and_changes_nothing(tmp_path: Path) -> None:
    async def scenario(broker: Insight) -> None:
        topic_id = await broker.create("t")
        client = await broker.connect(host=PLAIN)
        before = await state(broker)
        asked = requests(topic_id)
        assert asked.keys() | APART == set(APIS)
        for key, fields in asked.items():
            answer = await ask(client, key, fields)
            if key in NEVER_REFUSED:
                assert not getattr(answer, "groups", ()), key
                assert not getattr(answer, "transaction_states", ()), key
                continue
            assert refusals(answer), (key, answer)
            assert set(codes(answer)) - {ErrorCode.none} == refusals(answer), (key, answer)
        assert await state(broker) == before

    with_broker(tmp_path, scenario, **AUTHORIZER)


# Up to these versions they have fields of their own, which the requests here lack.
OWN_FIELDS = {
    ApiKey.OFFSET_FETCH: 8,
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.DELETE_TOPICS: 6,
    ApiKey.ADD_PARTITIONS_TO_TXN: 4,
}


@pytest.mark.long
def test_s28_without_rights_every_version_of_every_api_refuses(tmp_path: Path) -> None:
    async def scenario(broker: Insight) -> None:
        client = await broker.connect(host=PLAIN)
        for key, fields in requests(await broker.create("t")).items():
            if key in NEVER_REFUSED:
                continue
            first = OWN_FIELDS.get(key, APIS[key].lowest)
            for version in range(first, APIS[key].highest + 1):
                answer = await ask(client, key, fields, version)
                assert refusals(answer), (key, version, answer)
                assert set(codes(answer)) - {ErrorCode.none} == refusals(answer), (key, version)

    with_broker(tmp_path, scenario, **AUTHORIZER)


def test_s28_with_exactly_the_rights_of_its_row_every_api_is_allowed(tmp_path: Path) -> None:
    async def scenario(broker: Insight) -> None:
        topic_id = await broker.create("t")
        client = await broker.connect(host=PLAIN)
        await coordinated(broker, client)
        for key, fields in requests(topic_id).items():
            if key in TOKENS:
                continue
            row = ACCESS[key]
            needed = [c for c in row.checks if c.resource in NAMES]
            if key is ApiKey.ADD_PARTITIONS_TO_TXN:  # of a broker
                needed = needed[1:2]
            if key in FIRST_ONLY:
                needed = needed[: FIRST_ONLY[key]]
            acls = [
                allow(
                    check.operation,
                    check.resource,
                    OTHER_NAMES.get(key) if check.resource is ResourceType.TOPIC else None,
                )
                for check in needed
            ]
            await grant(broker, *acls)
            answer = await ask(client, key, fields)
            assert not refusals(answer), (key, answer)
            await revoke_all(broker)
            # With any of its rights missing, it is refused again.
            if key not in NEVER_REFUSED | MAY_HAVE_LESS:
                for missing in range(len(acls)):
                    await grant(broker, *acls[:missing], *acls[missing + 1 :])
                    answer = await ask(client, key, fields)
                    assert refusals(answer), (key, missing, answer)
                    await revoke_all(broker)

    with_broker(tmp_path, scenario, **AUTHORIZER, **ONE_COORDINATOR)


# Their other rights are for other requests: transactions, brokers' configs, creation.
FIRST_ONLY = {
    ApiKey.DESCRIBE_TRANSACTIONS: 1,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 1,
    ApiKey.CONSUMER_GROUP_DESCRIBE: 1,
    ApiKey.METADATA: 1,
    ApiKey.FIND_COORDINATOR: 1,
    ApiKey.DESCRIBE_CONFIGS: 1,
    ApiKey.ALTER_CONFIGS: 1,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.DELETE_TOPICS: 1,
    ApiKey.CREATE_TOPICS: 1,
}
MAY_HAVE_LESS = {ApiKey.INIT_PRODUCER_ID}


def test_s29_produce_and_fetch_ask_for_write_and_read(tmp_path: Path) -> None:
    async def scenario(broker: Insight) -> None:
        topic_id = await broker.create("t")
        await broker.create("u")
        client = await broker.connect(host=PLAIN)
        await grant(broker, allow(Operation.WRITE, ResourceType.TOPIC, "u"))
        answer = await client.ask(produce(("t", 0, batch()), ("u", 0, batch())))
        assert [p.error_code for t in answer.responses for p in t.partition_responses] == [
            ErrorCode.topic_authorization_failed,
            ErrorCode.none,
        ]
        assert broker.leader("t").log.log_end_offset == 0
        for wanted in (fetch(("t", 0, 0)), fetch((topic_id, 0, 0), version=13)):
            answer = await client.ask(wanted)
            (partition,) = answer.responses[0].partitions
            assert partition.error_code is ErrorCode.topic_authorization_failed
            assert not partition.records
        await grant(broker, allow(Operation.READ, ResourceType.TOPIC, "t"))
        answer = await client.ask(fetch(("t", 0, 0)))
        assert answer.responses[0].partitions[0].error_code is ErrorCode.none

    with_broker(tmp_path, scenario, **AUTHORIZER)


def test_s29_of_a_transactional_produce_only_the_denied_topic_is_refused(tmp_path: Path) -> None:
    async def scenario(broker: Insight) -> None:
        await broker.create("t")
        await broker.create("u")
        id_ = allow(Operation.WRITE, ResourceType.TRANSACTIONAL_ID)
        await grant(broker, id_, allow(Operation.WRITE, ResourceType.TOPIC))
        client = await broker.connect(host=PLAIN)
        records = batch(producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
        asked = produce(("u", 0, records), ("t", 0, records), transactional_id="x")
        answer = await client.ask(asked)
        found = {each.name: set(codes(each)) for each in answer.responses}
        assert found == {"u": {ErrorCode.topic_authorization_failed}, "t": {ErrorCode.none}}
        assert broker.leader("u").log.log_end_offset == 0
        assert broker.leader("t").log.log_end_offset == 1

    unverified = {"transaction_partition_verification_enable": "false"}
    with_broker(tmp_path, scenario, **AUTHORIZER, **unverified)


@pytest.mark.parametrize("transactional_id", ["", "x"])
def test_s29_a_transactional_produce_asks_for_write_on_its_id(
    tmp_path: Path, transactional_id: str
) -> None:
    async def scenario(broker: Insight) -> None:
        await broker.create("t")
        client = await broker.connect(host=PLAIN)
        await grant(broker, allow(Operation.WRITE, ResourceType.TOPIC))
        records = batch(producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
        answer = await client.ask(produce(("t", 0, records), transactional_id=transactional_id))
        assert set(codes(answer)) == {ErrorCode.transactional_id_authorization_failed}
        assert broker.leader("t").log.log_end_offset == 0

    unverified = {"transaction_partition_verification_enable": "false"}
    with_broker(tmp_path, scenario, **AUTHORIZER, **unverified)


def test_s29_a_forged_replica_id_reads_nothing_and_moves_nothing(tmp_path: Path) -> None:
    async def scenario(broker: Insight) -> None:
        await broker.create("t")
        client = await broker.connect(host=PLAIN)
        # A consumer's right is not that of a follower.
        await grant(broker, allow(Operation.READ, ResourceType.TOPIC))
        for epoch in (-1, 0):
            answer = await client.ask(
                fetch(("t", 0, 0), replica_id=0, session_epoch=epoch, max_wait_ms=50)
            )
            (partition,) = answer.responses[0].partitions
            assert partition.error_code is ErrorCode.topic_authorization_failed
        await grant(broker, allow(Operation.CLUSTER_ACTION, ResourceType.CLUSTER))
        answer = await client.ask(fetch(("t", 0, 0), replica_id=0))
        (partition,) = answer.responses[0].partitions
        assert partition.error_code is not ErrorCode.topic_authorization_failed

    with_broker(tmp_path, scenario, **AUTHORIZER)


def test_s30_metadata_discloses_nothing(tmp_path: Path) -> None:
    async def scenario(broker: Insight) -> None:
        topic_id = await broker.create("t")
        await broker.create("seen")
        await grant(broker, allow(Operation.READ, ResourceType.TOPIC, "seen"))
        client = await broker.connect(host=PLAIN)
        answer = await ask(client, ApiKey.METADATA, of(topics=None))
        assert [topic.name for topic in answer.topics] == ["seen"]
        by_id = of(topics=(of(name=None, topic_id=topic_id),))
        (topic,) = (await ask(client, ApiKey.METADATA, by_id)).topics
        assert (topic.error_code, topic.name) == (ErrorCode.unknown_topic_id, None)
        # A topic that may not be seen looks the same whether or not it exists.
        for name in ("t", "absent"):
            by_name = of(topics=(of(name=name),), allow_auto_topic_creation=True)
            (topic,) = (await ask(client, ApiKey.METADATA, by_name)).topics
            assert topic.error_code is ErrorCode.topic_authorization_failed
            assert (topic.partitions, topic.topic_id) == ((), None)
        # To see a topic that does not exist is not to create it.
        await grant(broker, allow(Operation.DESCRIBE, ResourceType.TOPIC, "absent"))
        (topic,) = (await ask(client, ApiKey.METADATA, by_name)).topics
        assert topic.error_code is ErrorCode.topic_authorization_failed
        await grant(broker, allow(Operation.CREATE, ResourceType.TOPIC, "absent"))
        (topic,) = (await ask(client, ApiKey.METADATA, by_name)).topics
        assert topic.error_code is ErrorCode.none
        all_topics = await ask(client, ApiKey.DESCRIBE_TOPIC_PARTITIONS, of(topics=()))
        assert [topic.name for topic in all_topics.topics] == ["absent", "seen"]

    with_broker(tmp_path, scenario, **AUTHORIZER)


def test_s30_consumer_groups_disclose_no_topic_that_a_member_may_not_describe(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(broker: Insight) -> None:
        await broker.create("t")
        seen = await broker.create("seen")
        client = await broker.connect(host=PLAIN)
        await coordinated(broker, client)
        await grant(
            broker,
            allow(Operation.READ, ResourceType.GROUP),
            allow(Operation.DESCRIBE, ResourceType.TOPIC, "seen"),
        )
        joining = {
            "group_id": "g",
            "member_id": "m",
            "member_epoch": 0,
            "rebalance_timeout": timedelta(seconds=30),
            "topic_partitions": (),
        }
        # By name it looks the same whether or not the topic exists.
        for name in ("t", "absent"):
            by_name = of(**joining, subscribed_topic_names=("seen", name))
            answer = await ask(client, ApiKey.CONSUMER_GROUP_HEARTBEAT, by_name)
            assert answer.error_code is ErrorCode.topic_authorization_failed
            assert (answer.error_message, answer.assignment) == (None, None)
            assert f"resource = Topic:LITERAL:{name} for request" in caplog.text
        caplog.clear()
        by_regex = of(**joining, subscribed_topic_regex=".*")
        answer = await ask(client, ApiKey.CONSUMER_GROUP_HEARTBEAT, by_regex)
        assert [topic.topic_id for topic in answer.assignment.topic_partitions] == [seen]
        assert "is Denied" not in caplog.text
        # A client that may describe the group, but not its topics, sees nothing of it.
        described = of(group_ids=("g",), include_authorized_operations=True)
        (group,) = (await ask(client, ApiKey.CONSUMER_GROUP_DESCRIBE, described)).groups
        assert [member.member_id for member in group.members] == ["m"]
        assert group.authorized_operations == (1 << 3) + (1 << 8)
        await revoke_all(broker)
        await grant(broker, allow(Operation.DESCRIBE, ResourceType.GROUP))
        (group,) = (await ask(client, ApiKey.CONSUMER_GROUP_DESCRIBE, described)).groups
        assert group.error_code is ErrorCode.topic_authorization_failed
        assert (group.members, group.authorized_operations) == ((), NOT_ASKED)
        await grant(broker, allow(Operation.READ, ResourceType.GROUP))
        leaving = of(group_id="g", member_id="m", member_epoch=-1)
        left = await ask(client, ApiKey.CONSUMER_GROUP_HEARTBEAT, leaving)
        assert left.error_code is ErrorCode.none

    with caplog.at_level(logging.INFO, "kafka.authorizer.logger"):
        with_broker(tmp_path, scenario, **AUTHORIZER, **ONE_COORDINATOR)


def test_s31_authorized_operations_are_those_that_are_allowed(tmp_path: Path) -> None:
    async def scenario(broker: Insight) -> None:
        await broker.create("t")
        await grant(
            broker,
            allow(Operation.READ, ResourceType.TOPIC),
            allow(Operation.ALTER_CONFIGS, ResourceType.TOPIC),
            allow(Operation.ALTER, ResourceType.CLUSTER),
            allow(Operation.DESCRIBE, ResourceType.GROUP),
        )
        client = await broker.connect(host=PLAIN)
        named = of(topics=(of(name="t"),), include_topic_authorized_operations=True)
        (topic,) = (await ask(client, ApiKey.METADATA, named)).topics
        described = [3, 8, 10, 11]  # READ, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS
        assert topic.topic_authorized_operations == sum(1 << bit for bit in described)
        wanted = of(include_cluster_authorized_operations=True)
        answer = await ask(client, ApiKey.DESCRIBE_CLUSTER, wanted)
        assert answer.cluster_authorized_operations == (1 << 7) + (1 << 8)
        await revoke_all(broker)
        await grant(broker, allow(Operation.CREATE, ResourceType.CLUSTER))
        answer = await ask(client, ApiKey.DESCRIBE_CLUSTER, wanted)
        assert answer.cluster_authorized_operations == 0  # it may not describe the cluster
        # Those of a group only if it can be described.
        wanted = of(groups=("g",), include_authorized_operations=True)
        await grant(broker, allow(Operation.DESCRIBE, ResourceType.GROUP))
        (group,) = (await ask(client, ApiKey.DESCRIBE_GROUPS, wanted)).groups
        assert group.error_code is ErrorCode.coordinator_not_available
        assert group.authorized_operations == NOT_ASKED
        await coordinated(broker, client)
        await grant(broker, allow(Operation.DESCRIBE, ResourceType.GROUP))
        (group,) = (await ask(client, ApiKey.DESCRIBE_GROUPS, wanted)).groups
        assert group.authorized_operations == 1 << 8

    with_broker(tmp_path, scenario, **AUTHORIZER, **ONE_COORDINATOR)


def test_s32_the_audit_log_has_kafkas_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(broker: Insight) -> None:
        await grant(broker, allow(Operation.DESCRIBE, ResourceType.CLUSTER))
        client = await broker.connect(host=PLAIN)
        await ask(client, ApiKey.METADATA, of(topics=(of(name="t"),)))
        await ask(client, ApiKey.DESCRIBE_LOG_DIRS, of(topics=None))

    with caplog.at_level(logging.DEBUG, "kafka.authorizer.logger"):
        with_broker(tmp_path, scenario, **AUTHORIZER)
    logged = [(r.levelname, r.getMessage()) for r in caplog.records if r.name[:5] == "kafka"]
    assert logged == [
        (
            "INFO",
            "Principal = User:ANONYMOUS is Denied Operation = Describe from host = 127.0.0.2 on "
            "resource = Topic:LITERAL:t for request = Metadata with resourceRefCount = 1",
        ),
        (
            "DEBUG",
            "Principal = User:ANONYMOUS is Allowed Operation = Describe from host = 127.0.0.2 on "
            "resource = Cluster:LITERAL:kafka-cluster for request = DescribeLogDirs with "
            "resourceRefCount = 1",
        ),
    ]


def test_a_revoked_acl_acts_on_open_connections(tmp_path: Path) -> None:
    """On requests that the connection serves by shortcut, fetch sessions and delayed fetches."""

    async def scenario(broker: Insight) -> None:
        topic_id = await broker.create("t")
        rights = [
            allow(Operation.WRITE, ResourceType.TOPIC),
            allow(Operation.READ, ResourceType.TOPIC),
        ]
        await grant(broker, *rights, allow(Operation.WRITE, ResourceType.TOPIC, host=ADMIN))
        producer = await broker.connect(host=PLAIN)
        consumer = await broker.connect(host=PLAIN)
        in_session = await broker.connect(host=PLAIN)
        waiting = await broker.connect(host=PLAIN)
        other = await broker.connect(host=ADMIN)
        for _ in range(3):
            answer = await producer.ask(produce(("t", 0, batch()), acks=1))
            assert not refusals(answer)
            assert not refusals(await consumer.ask(fetch((topic_id, 0, 0), version=13)))
        opened = await in_session.ask(fetch((topic_id, 0, 3), version=13, session_epoch=0))
        assert opened.session_id
        await waiting.send(fetch((topic_id, 0, 3), version=13, max_wait_ms=20_000))
        await until(lambda: broker.delayed.waiting == 1)
        await revoke_all(broker)
        end = broker.leader("t").log.log_end_offset
        answer = await producer.ask(produce(("t", 0, batch()), acks=1))
        assert refusals(answer) == {ErrorCode.topic_authorization_failed}
        assert broker.leader("t").log.log_end_offset == end
        assert not refusals(await other.ask(produce(("t", 0, batch(b"secret")), acks=1)))
        for answered in (
            await consumer.ask(fetch((topic_id, 0, 0), version=13)),
            await in_session.ask(fetch(version=13, session_id=opened.session_id, session_epoch=1)),
        ):
            assert refusals(answered) == {ErrorCode.topic_authorization_failed}
        assert b"secret" not in await waiting.receive()

    with_broker(tmp_path, scenario, **AUTHORIZER)


def test_s23_s24_acls_are_kafkas_znodes_and_other_brokers_follow_them(tmp_path: Path) -> None:
    async def scenario(broker: Insight) -> None:
        acls = broker.running.broker.check_acls()
        tree: Any = acls._coordination
        await grant(broker, allow(Operation.READ, ResourceType.TOPIC, "t"))
        data, stat = await tree.get("/kafka-acl/Topic/t")
        assert data == (
            b'{"version":1,"acls":[{"principal":"User:ANONYMOUS","permissionType":"Allow",'
            b'"operation":"Read","host":"127.0.0.2"}]}'
        )
        (change,) = await tree.children("/kafka-acl-changes")
        assert change == "acl_changes_0000000000"
        assert (await tree.get(f"/kafka-acl-changes/{change}"))[0] == b"TOPIC:t"
        prefix = allow(
            Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "x", pattern=PatternType.PREFIXED
        )
        await grant(broker, prefix)
        (change,) = await tree.children("/kafka-acl-extended-changes")
        assert (await tree.get(f"/kafka-acl-extended-changes/{change}"))[0] == (
            b'{"version":1,"resourceType":"TRANSACTIONAL_ID","name":"x","patternType":"PREFIXED"}'
        )
        # Another broker adds an entry, as Kafka's would, and notifies.
        more = data.replace(b"Read", b"Write").replace(b"127.0.0.2", b"*")
        await tree.set("/kafka-acl/Topic/t", more, stat.version)
        await tree.create("/kafka-acl-changes/acl_changes_", b"TOPIC:t", sequential=True)
        pattern = ResourcePattern(ResourceType.TOPIC, "t")
        authorizer: Any = acls._authorizer
        await until(lambda: any(e.host == "*" for e in authorizer.cache.entries(pattern)))
        # No entry is left: the znode goes.
        await acls.delete([AclFilter()])
        assert await tree.exists("/kafka-acl/Topic/t") is None
        # A znode that cannot be read closes its resource.
        await tree.create("/kafka-acl/Topic/t", b"{")
        await tree.create("/kafka-acl-changes/acl_changes_", b"TOPIC:t", sequential=True)
        await until(lambda: authorizer.cache.entries(pattern))
        client = await broker.connect(host=PLAIN)
        answer = await ask(client, ApiKey.METADATA, of(topics=(of(name="t"),)))
        assert refusals(answer)

    with_broker(tmp_path, scenario, **AUTHORIZER)


@pytest.mark.parametrize("pattern", [PatternType.LITERAL, PatternType.PREFIXED])
def test_s23_a_resource_that_no_znode_can_have_is_refused(
    tmp_path: Path, pattern: PatternType
) -> None:
    async def scenario(broker: Insight) -> None:
        acls = [
            allow(Operation.READ, ResourceType.GROUP, name, pattern=pattern) for name in (".", "..")
        ]
        refused = await broker.running.broker.check_acls().create(acls)
        assert [each and each.code for each in refused] == [ErrorCode.invalid_request] * 2
        assert not list(broker.running.broker.check_acls().find(AclFilter()))

    with_broker(tmp_path, scenario, **AUTHORIZER)


def test_two_writers_of_one_resource_lose_nothing(tmp_path: Path) -> None:
    async def scenario(broker: Insight) -> None:
        hosts = [f"10.0.0.{number}" for number in range(8)]
        wanted = [allow(Operation.READ, ResourceType.TOPIC, host=host) for host in hosts]
        await asyncio.gather(*(grant(broker, acl) for acl in wanted))
        assert broker.running.broker.check_acls().find(AclFilter()) == sorted(wanted)

    with_broker(tmp_path, scenario, **AUTHORIZER)


def test_without_an_authorizer_acls_are_disabled(tmp_path: Path) -> None:
    async def scenario(broker: Insight) -> None:
        client = await broker.connect()
        asked = requests(await broker.create("t"))
        for key in (ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS):
            answer = await ask(client, key, asked[key])
            assert ErrorCode.security_disabled in set(codes(answer))

    with_broker(tmp_path, scenario)
