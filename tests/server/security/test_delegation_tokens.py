"""Delegation tokens on a secure cluster: our client and command, and the rights of others."""

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from confluent_kafka import admin
from confluent_kafka.admin import AdminClient

from barnabas.base.errors import ConfigError, ErrorCode
from barnabas.cli.main import run
from barnabas.client.blocking_connection import BlockingConnection
from barnabas.client.librdkafka_names import librdkafka_names
from barnabas.client.metadata import fields
from barnabas.client.security import AuthenticationFailed, SecurityContext
from barnabas.config.jaas import jaas_text
from barnabas.security.acls import Operation, PatternType, Permission, ResourceType
from barnabas.testing import Cluster
from barnabas.wire.apis import APIS, ApiKey
from barnabas.znodes.token_layout import DelegationToken, decode_token, encode_token
from barnabas.znodes.tree import MalformedZnode
from tests.server.security.conftest import SCRAM_MODULE, SecureBroker
from tests.support.waiting import until

SOON = 30.0
kinds: Any = admin
CONFIG = {
    "delegation.token.secret.key": "the key of all brokers",
    "delegation.token.expiry.check.interval.ms": "100",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:broker;User:admin",
}
NOT_ALLOWED = ErrorCode.delegation_token_request_not_allowed


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(2, CONFIG, secure=True) as started:
        client: Any = AdminClient({**started.client_properties})
        scram = kinds.ScramCredentialInfo(kinds.ScramMechanism.SCRAM_SHA_256, 4096)
        wanted = [
            kinds.UserScramCredentialUpsertion(user, scram, b"secret")
            for user in ("alice", "bob", "job")
        ]
        for future in client.alter_user_scram_credentials(wanted).values():
            future.result(SOON)
        yield started


def login(cluster: Cluster, user: str, password: str, is_token: bool = False) -> dict[str, str]:
    """The properties of a client with this login."""
    token = {"tokenauth": "true"} if is_token else {}
    jaas = jaas_text(SCRAM_MODULE, {"username": user, "password": password, **token})
    kept = {k: v for k, v in cluster.client_properties.items() if not k.startswith("sasl.")}
    return {**kept, "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": jaas}


class Session:
    """A user's connection to one broker."""

    def __init__(
        self, address: str, properties: Mapping[str, str], version: int | None = None
    ) -> None:
        host, _, port = address.rpartition(":")
        self._version = version
        self.connection = BlockingConnection.connect(
            host,
            int(port),
            client_id="test",
            connect_s=SOON,
            response_s=SOON,
            security=SecurityContext.of(properties),
        )

    def close(self) -> None:
        self.connection.close()

    def ask(self, key: ApiKey, **asked: Any) -> Any:
        version = APIS[key].highest if self._version is None else self._version
        return self.connection.request(key, version, fields(**asked))

    def create(self, owner: str | None = None, renewers: tuple[str, ...] = ()) -> Any:
        return self.ask(
            ApiKey.CREATE_DELEGATION_TOKEN,
            owner_principal_type=None if owner is None else "User",
            owner_principal_name=owner,
            renewers=tuple(map(principal, renewers)),
            max_lifetime_ms=-1,
        )

    def renew(self, hmac: bytes, period_ms: int = -1) -> Any:
        return self.ask(ApiKey.RENEW_DELEGATION_TOKEN, hmac=hmac, renew_period_ms=period_ms)

    def expire(self, hmac: bytes, period_ms: int = -1) -> Any:
        return self.ask(ApiKey.EXPIRE_DELEGATION_TOKEN, hmac=hmac, expiry_time_period_ms=period_ms)

    def seen(self, *owners: str) -> set[str]:
        """The ids of the tokens that are described."""
        wanted = tuple(map(principal, owners)) or None
        described = self.ask(ApiKey.DESCRIBE_DELEGATION_TOKEN, owners=wanted)
        assert described.error_code is ErrorCode.none
        return {token.token_id for token in described.tokens}


def principal(text: str) -> Any:
    kind, _, name = text.partition(":")
    return fields(principal_type=kind, principal_name=name)


def as_user(cluster: Cluster, user: str, broker: int = 0, version: int | None = None) -> Any:
    return closing(Session(cluster.address(broker), login(cluster, user, "secret"), version))


def with_token(cluster: Cluster, token: Any, broker: int = 0) -> Any:
    password = base64.b64encode(token.hmac).decode()
    properties = login(cluster, token.token_id, password, is_token=True)
    return closing(Session(cluster.address(broker), properties))


def gets_in(cluster: Cluster, token: Any, broker: int) -> bool:
    try:
        with with_token(cluster, token, broker):
            return True
    except AuthenticationFailed:
        return False


def is_refused(cluster: Cluster, token: Any, broker: int) -> bool:
    return not gets_in(cluster, token, broker)


def allow_bob(cluster: Cluster, kind: ResourceType, name: str, *operations: Operation) -> None:
    """Let bob do this, at the first broker at once."""
    created = tuple(
        fields(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=PatternType.LITERAL,
            principal="User:bob",
            host="*",
            operation=operation,
            permission_type=Permission.ALLOW,
        )
        for operation in operations
    )
    with closing(Session(cluster.address(0), cluster.client_properties)) as session:
        answer = session.ask(ApiKey.CREATE_ACLS, creations=created)
    assert {each.error_code for each in answer.results} == {ErrorCode.none}


def test_s43_a_token_logs_its_owner_in_at_every_broker(cluster: Cluster) -> None:
    with as_user(cluster, "alice") as alice:
        token = alice.create()
        assert token.error_code is ErrorCode.none
        assert len(token.hmac) == 64
        assert token.expiry_timestamp_ms - token.issue_timestamp_ms == 86_400_000
        assert token.max_timestamp_ms - token.issue_timestamp_ms == 604_800_000
        until(lambda: gets_in(cluster, token, 1), within_s=SOON)
        with with_token(cluster, token, 1) as session:
            # The owner's session, and no more than that: a token does not beget tokens.
            assert session.create().error_code is NOT_ALLOWED
            assert session.renew(token.hmac).error_code is NOT_ALLOWED
            described = session.ask(ApiKey.DESCRIBE_DELEGATION_TOKEN, owners=None)
            assert described.error_code is NOT_ALLOWED
        assert alice.expire(token.hmac).error_code is ErrorCode.none
    until(lambda: not gets_in(cluster, token, 1), within_s=SOON)
    assert not gets_in(cluster, token, 0)


def test_s43_the_rights_of_a_token_are_those_of_its_owner(cluster: Cluster) -> None:
    allow_bob(cluster, ResourceType.TOPIC, "bobs", Operation.DESCRIBE)
    with as_user(cluster, "bob") as bob, as_user(cluster, "alice") as alice:
        asked = {"topics": (fields(name="bobs"),), "allow_auto_topic_creation": False}
        for owner, code in (
            (bob, ErrorCode.unknown_topic_or_partition),
            (alice, ErrorCode.topic_authorization_failed),
        ):
            with with_token(cluster, owner.create()) as session:
                answer = session.ask(ApiKey.METADATA, **asked)
                assert [topic.error_code for topic in answer.topics] == [code]


def test_s44_only_owner_and_renewers_renew_and_expire(cluster: Cluster) -> None:
    with (
        as_user(cluster, "alice") as alice,
        as_user(cluster, "bob") as bob,
        as_user(cluster, "job", version=1) as job,
    ):
        token = alice.create(renewers=("User:job",))
        for refused in (bob.renew(token.hmac), bob.expire(token.hmac)):
            assert refused.error_code is ErrorCode.delegation_token_owner_mismatch
            assert refused.expiry_timestamp_ms == -1
        renewed = job.renew(token.hmac, 1_000)
        assert renewed.error_code is ErrorCode.none
        assert renewed.expiry_timestamp_ms < token.expiry_timestamp_ms
        assert alice.renew(token.hmac, 10**15).expiry_timestamp_ms == token.max_timestamp_ms
        assert alice.renew(b"other").error_code is ErrorCode.delegation_token_not_found
        of_a_group = alice.create(renewers=("Group:g",))
        assert of_a_group.error_code is ErrorCode.invalid_principal_type
        assert job.expire(token.hmac).error_code is ErrorCode.none
        assert token.token_id not in alice.seen()


def test_s44_tokens_of_others_are_seen_and_created_with_the_right_to(cluster: Cluster) -> None:
    with as_user(cluster, "alice") as alice, as_user(cluster, "bob") as bob:
        one, two = alice.create(), alice.create()
        mine = bob.create().token_id
        assert bob.seen() >= {mine}
        assert not bob.seen() & {one.token_id, two.token_id}
        allow_bob(cluster, ResourceType.DELEGATION_TOKEN, one.token_id, Operation.DESCRIBE)
        assert bob.seen() & {one.token_id, two.token_id} == {one.token_id}
        refused = bob.create(owner="alice")
        assert refused.error_code is ErrorCode.delegation_token_authorization_failed
        assert refused.principal_name == "alice"
        rights = (Operation.DESCRIBE_TOKENS, Operation.CREATE_TOKENS)
        allow_bob(cluster, ResourceType.USER, "User:alice", *rights)
        assert bob.seen("User:alice") >= {one.token_id, two.token_id}
        assert mine not in bob.seen("User:alice")
        made = bob.create(owner="alice")
        assert made.error_code is ErrorCode.none
        assert (made.principal_name, made.token_requester_principal_name) == ("alice", "bob")
        # The requester of a token sees it, but only its owner renews it.
        assert bob.renew(made.hmac).error_code is ErrorCode.delegation_token_owner_mismatch
        assert alice.renew(made.hmac).error_code is ErrorCode.none


def test_s44_expired_tokens_are_refused_and_removed_by_the_controller(cluster: Cluster) -> None:
    with as_user(cluster, "alice") as alice:
        token = alice.create()
        with with_token(cluster, token):
            assert alice.expire(token.hmac, 0).error_code is ErrorCode.none
        for broker in cluster.brokers:
            until(partial(is_refused, cluster, token, broker), within_s=SOON)
        until(lambda: token.token_id not in alice.seen(), within_s=SOON)
        gone = alice.renew(token.hmac)
        assert gone.error_code is ErrorCode.delegation_token_not_found


def test_the_command_creates_renews_lists_and_expires(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = login(cluster, "alice", "secret")
    options = ["-b", pairs.pop("bootstrap.servers")]
    for key, value in pairs.items():
        options += ["-X", f"{key}={value}"]

    def tokens(*arguments: str) -> Any:
        assert run(["tokens", *arguments, "--json", *options]) == 0
        return json.loads(capsys.readouterr().out)

    made = tokens("create", "--renewer", "User:job", "--max-lifetime-ms", "3600000")
    assert made["owner"] == "User:alice"
    assert tokens("renew", made["hmac"], "--period-ms", "60000")["expires"] < made["expires"]
    listed = {each["token_id"]: each for each in tokens("list", "--owner", "User:alice")}
    assert listed[made["token_id"]]["hmac"] == made["hmac"]
    assert listed[made["token_id"]]["renewers"] == ["User:job"]
    tokens("expire", made["hmac"])
    assert run(["tokens", "renew", made["hmac"], *options]) == 1
    assert "DELEGATION_TOKEN_NOT_FOUND" in capsys.readouterr().err
    assert run(["tokens", "renew", "no base64!", *options]) == 2


def test_s43_without_a_key_there_are_no_tokens_and_one_way_tls_asks_for_none(
    secure_broker: SecureBroker,
) -> None:
    plain = secure_broker.librdkafka(
        "SASL_SSL", sasl_mechanism="PLAIN", sasl_username="alice", sasl_password='a"l\\ice'
    )
    with closing(Session(secure_broker.at("SASL_SSL"), plain)) as session:
        assert session.create().error_code is ErrorCode.delegation_token_auth_disabled
        assert session.renew(b"h").error_code is ErrorCode.delegation_token_auth_disabled
    with closing(Session(secure_broker.at("SSL"), secure_broker.librdkafka("SSL"))) as session:
        assert session.create().error_code is NOT_ALLOWED


def test_librdkafka_is_refused_a_token_with_a_sentence() -> None:
    jaas = jaas_text(SCRAM_MODULE, {"username": "i", "password": "h", "tokenauth": "true"})
    with pytest.raises(ConfigError, match="delegation token"):
        librdkafka_names({"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": jaas})


def test_s43_a_token_has_kafkas_znode() -> None:
    token = DelegationToken("id", "User:al/ice", "User:bob", ("User:job",), 1, 3, 2)
    data = encode_token(token)
    assert json.loads(data) == {
        "version": 3,
        "owner": "User%3Aal%2Fice",
        "tokenRequester": "User%3Abob",
        "renewers": ["User%3Ajob"],
        "issueTimestamp": 1,
        "maxTimestamp": 3,
        "expiryTimestamp": 2,
        "tokenId": "id",
    }
    assert decode_token("/p", data) == token
    old = json.loads(data) | {"version": 1}
    del old["tokenRequester"]
    assert decode_token("/p", json.dumps(old).encode()).requester == token.owner
    with pytest.raises(MalformedZnode):
        decode_token("/p", b"{}")
