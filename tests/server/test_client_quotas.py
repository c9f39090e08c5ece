"""Client quotas over the wire: described, altered (S35, S42), and in force (S36 to S40)."""

import asyncio
from pathlib import Path
from typing import Any

from barnabas.base.errors import ErrorCode
from barnabas.security.acls import Operation, ResourceType
from barnabas.security.client_quotas import QuotaEntity
from barnabas.server.cluster.quota_admin import Change
from barnabas.server.cluster.user_credentials import CredentialDeletion, Upsertion
from barnabas.wire.apis import ApiKey
from tests.server.api_requests import SOON, of
from tests.server.raw import Insight, RawClient, batch, fetch, produce, with_broker
from tests.server.test_authorization import ADMIN, AUTHORIZER, PLAIN, allow, ask, codes, grant

WINDOWS = {"quota_window_num": 3}


def entity(**names: str | None) -> tuple[Any, ...]:
    return tuple(
        of(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in names.items()
    )


async def alter(client: RawClient, parts: Any, /, validate_only: bool = False, **ops: Any) -> Any:
    wanted = tuple(
        of(key=key, value=value or 0.0, remove=value is None) for key, value in ops.items()
    )
    answer = await ask(
        client,
        ApiKey.ALTER_CLIENT_QUOTAS,
        of(entries=(of(entity=parts, ops=wanted),), validate_only=validate_only),
    )
    return answer.entries[0].error_code


async def described(client: RawClient, *components: Any, strict: bool = False) -> Any:
    answer = await ask(
        client, ApiKey.DESCRIBE_CLIENT_QUOTAS, of(components=components, strict=strict)
    )
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            each.key: each.value for each in entry.values
        }
        for entry in answer.entries
    }


def component(kind: str, match_type: int, match: str | None = None) -> Any:
    return of(entity_type=kind, match_type=match_type, match=match)


def test_s35_s42_quotas_are_kafkas_znodes_and_are_described_by_filters(tmp_path: Path) -> None:
    async def scenario(broker: Insight) -> None:
        client = await broker.connect()
        tree: Any = broker.running.broker.client_quotas._coordination
        both = entity(user="a b", client_id=None)
        assert await alter(client, both, producer_byte_rate=1024.0) is ErrorCode.none
        data, _ = await tree.get("/config/users/a%20b/clients/<default>")
        assert data == b'{"version":1,"config":{"producer_byte_rate":"1024"}}'
        assert await alter(client, entity(ip="10.0.0.1"), connection_creation_rate=5.0) == 0
        assert await alter(client, entity(user=None), request_percentage=50.5) == 0
        assert set(await described(client)) == {
            (("user", "a b"), ("client-id", None)),
            (("ip", "10.0.0.1"),),
            (("user", None),),
        }
        users = await described(client, component("user", 2))
        assert len(users) == 2
        only = await described(client, component("user", 2), strict=True)
        assert only == {(("user", None),): {"request_percentage": 50.5}}
        assert list(await described(client, component("user", 0, "a b"))) == [
            (("user", "a b"), ("client-id", None))
        ]
        assert await alter(client, both, producer_byte_rate=None) is ErrorCode.none
        assert len(await described(client)) == 2

    with_broker(tmp_path, scenario)


def test_s35_quotas_and_credentials_of_a_user_do_not_undo_each_other(tmp_path: Path) -> None:
    async def scenario(broker: Insight) -> None:
        client = await broker.connect()
        parts: Any = broker.running.broker
        rates = ("producer_byte_rate", "consumer_byte_rate", "controller_mutation_rate")
        added = (Upsertion("alice", number, 4096, b"salt", b"salted") for number in (1, 2))
        await asyncio.gather(
            *(parts.users.alter([], [each]) for each in added),
            *(
                parts.client_quotas.alter(
                    QuotaEntity("alice"), [Change(rate, 9.0)], validate_only=False
                )
                for rate in rates
            ),
        )
        assert len(parts.users.describe("alice")) == 2
        assert set(*(await described(client)).values()) == set(rates)
        await asyncio.gather(
            parts.users.alter([CredentialDeletion("alice", 1), CredentialDeletion("alice", 2)], []),
            alter(client, entity(user="alice"), producer_byte_rate=1.0),
        )
        assert parts.users.users() == []

    with_broker(tmp_path, scenario)


def test_s42_what_kafka_refuses_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    async def scenario(broker: Insight) -> None:
        client = await broker.connect()
        refused = ErrorCode.invalid_request
        alice = entity(user="alice")
        assert (
            await alter(client, entity(user="a", ip="1.2.3.4"), request_percentage=1.0) is refused
        )
        assert await alter(client, entity(ip="1.2.3.4"), request_percentage=1.0) is refused
        assert await alter(client, alice, connection_creation_rate=1.0) is refused
        assert await alter(client, alice, nonsense=1.0) is refused
        assert await alter(client, alice, producer_byte_rate=-1.0) is refused
        assert await alter(client, alice, producer_byte_rate=1.5) is refused
        assert await alter(client, (), producer_byte_rate=1.0) is refused
        assert await alter(client, entity(user=".."), producer_byte_rate=1.0) is refused
        assert await alter(client, entity(client_id="."), producer_byte_rate=1.0) is refused
        assert await alter(client, alice, True, producer_byte_rate=1.0) is ErrorCode.none
        assert await described(client) == {}

    with_broker(tmp_path, scenario)


def test_s36_s38_a_producer_beyond_its_quota_is_answered_and_then_not_read(tmp_path: Path) -> None:
    async def scenario(broker: Insight) -> None:
        await broker.create("t")
        admin, client = await broker.connect(), await broker.connect()
        assert await alter(admin, entity(client_id="raw"), producer_byte_rate=2_000.0) == 0
        slow = await client.ask(produce(("t", 0, batch(bytes(5_000))), acks=1))
        assert 0 < slow.throttle_time.total_seconds() < 10
        assert not set(codes(slow)) - {ErrorCode.none}
        began = asyncio.get_running_loop().time()
        await client.ask(produce(("t", 0, batch(b"x")), acks=1))
        waited = asyncio.get_running_loop().time() - began
        assert waited >= 0.9 * slow.throttle_time.total_seconds()
        # Another client id has no quota.
        assert await alter(admin, entity(client_id="raw"), producer_byte_rate=None) == 0
        fast = await client.ask(produce(("t", 0, batch(bytes(5_000))), acks=1))
        assert fast.throttle_time.total_seconds() == 0

    with_broker(tmp_path, scenario, **WINDOWS)


def test_s37_a_fetch_beyond_its_quota_is_empty_and_a_small_quota_progresses(tmp_path: Path) -> None:
    async def scenario(broker: Insight) -> None:
        await broker.create("t")
        admin, client = await broker.connect(), await broker.connect()
        for _ in range(4):
            await admin.ask(produce(("t", 0, batch(bytes(1_500))), acks=1))
        assert await alter(admin, entity(client_id="raw"), consumer_byte_rate=1_000.0) == 0
        offset, empty = 0, 0
        async with asyncio.timeout(20):
            while offset < 4:
                answer = await client.ask(fetch(("t", 0, offset), max_wait_ms=0))
                records = answer.responses[0].partitions[0].records if answer.responses else b""
                if records:
                    assert len(records) < 2_500  # one window allows two kilobytes
                    offset += 1
                else:
                    assert answer.throttle_time.total_seconds() > 0
                    empty += 1
        assert empty
        # Without the quota a response has no less than the client asks for.
        assert await alter(admin, entity(client_id="raw"), consumer_byte_rate=None) == 0
        answer = await client.ask(fetch(("t", 0, 0), max_wait_ms=0))
        assert len(answer.responses[0].partitions[0].records) > 4 * 1_500

    with_broker(tmp_path, scenario, **WINDOWS)


def test_a_client_without_a_quota_is_not_measured_though_others_have_one(tmp_path: Path) -> None:
    async def scenario(broker: Insight) -> None:
        await broker.create("t")
        admin, client = await broker.connect(), await broker.connect()
        assert await alter(admin, entity(client_id="other"), producer_byte_rate=1.0) == 0

        async def measured() -> list[bool]:
            await client.ask(produce(("t", 0, batch(bytes(5_000))), acks=1))
            return [each.meters is not None for each in broker.connections._idle_watches]

        assert await measured() == [False, False]
        assert await alter(admin, entity(client_id="raw"), producer_byte_rate=1e9) == 0
        assert await measured() == [False, True]

    with_broker(tmp_path, scenario)


def test_s37_a_forged_replica_id_does_not_exempt_from_the_quota(tmp_path: Path) -> None:
    async def scenario(broker: Insight) -> None:
        await broker.create("t")
        await grant(
            broker,
            allow(Operation.WRITE, ResourceType.TOPIC, host=ADMIN),
            allow(Operation.ALTER_CONFIGS, ResourceType.CLUSTER, host=ADMIN),
            allow(Operation.READ, ResourceType.TOPIC),
        )
        admin, client = await broker.connect(host=ADMIN), await broker.connect(host=PLAIN)
        for _ in range(4):
            await admin.ask(produce(("t", 0, batch(bytes(1_500))), acks=1))
        assert await alter(admin, entity(client_id="raw"), consumer_byte_rate=1_000.0) == 0
        throttled = 0.0
        for _ in range(6):
            forged = await client.ask(fetch(("t", 0, 0), replica_id=1))
            assert set(codes(forged)) == {ErrorCode.none, ErrorCode.topic_authorization_failed}
            answer = await client.ask(fetch(("t", 0, 0), max_wait_ms=0))
            throttled += answer.throttle_time.total_seconds()
        assert throttled > 0

    with_broker(tmp_path, scenario, **WINDOWS, **AUTHORIZER)


def test_s39_the_time_on_the_loop_is_counted(tmp_path: Path) -> None:
    async def scenario(broker: Insight) -> None:
        await broker.create("t")
        admin, client = await broker.connect(), await broker.connect()
        assert await alter(admin, entity(client_id="raw"), request_percentage=0.0001) == 0
        slow = await client.ask(produce(("t", 0, batch()), acks=1))
        assert 0 < slow.throttle_time.total_seconds() <= 1  # one window at most
        assert await alter(admin, entity(client_id="test"), request_percentage=0.0001) == 0
        answer = await ask(await broker.connect(), ApiKey.METADATA, of(topics=()))
        assert 0 < answer.throttle_time.total_seconds() <= 1

    with_broker(tmp_path, scenario, **WINDOWS)


def test_s39_a_request_that_is_refused_is_counted(tmp_path: Path) -> None:
    async def scenario(broker: Insight) -> None:
        await grant(broker, allow(Operation.ALTER_CONFIGS, ResourceType.CLUSTER, host=ADMIN))
        admin, client = await broker.connect(host=ADMIN), await broker.connect(host=PLAIN)
        assert await alter(admin, entity(client_id="test"), request_percentage=0.0001) == 0
        for key, fields in (
            (ApiKey.DESCRIBE_ACLS, of(resource_type_filter=1, pattern_type_filter=1)),
            (ApiKey.ALLOCATE_PRODUCER_IDS, of(broker_id=0)),
        ):
            answer = await ask(client, key, fields)
            assert answer.error_code is ErrorCode.cluster_authorization_failed
            assert 0 < answer.throttle_time.total_seconds() <= 1

    with_broker(tmp_path, scenario, **WINDOWS, **AUTHORIZER)


def test_s41_connections_beyond_the_rate_of_their_address_are_closed(tmp_path: Path) -> None:
    async def scenario(broker: Insight) -> None:
        admin = await broker.connect()
        wanted = entity(ip="127.0.0.2")
        assert await alter(admin, wanted, connection_creation_rate=1.0) == 0
        early = [await broker.connect(host="127.0.0.2") for _ in range(2)]
        late = await broker.connect(host="127.0.0.2")
        await late.send(fetch())
        assert await late.is_closed()
        for client in early:
            assert (await ask(client, ApiKey.METADATA, of(topics=()))).brokers
        assert (await ask(await broker.connect(), ApiKey.METADATA, of(topics=()))).brokers

    with_broker(tmp_path, scenario, **WINDOWS)


def test_s40_changes_of_topics_beyond_the_quota_are_refused_or_throttled(tmp_path: Path) -> None:
    async def scenario(broker: Insight) -> None:
        client = await broker.connect()
        assert await alter(client, entity(client_id="test"), controller_mutation_rate=1.0) == 0

        def create(name: str) -> Any:
            new = of(name=name, num_partitions=15, replication_factor=1)
            return of(topics=(new,), timeout=SOON)

        first = await ask(client, ApiKey.CREATE_TOPICS, create("a"))
        assert first.topics[0].error_code is ErrorCode.none
        assert first.throttle_time.total_seconds() > 0
        second = await ask(await broker.connect(), ApiKey.CREATE_TOPICS, create("b"))
        assert second.topics[0].error_code is ErrorCode.throttling_quota_exceeded

    with_broker(tmp_path, scenario, controller_quota_window_num=5)
