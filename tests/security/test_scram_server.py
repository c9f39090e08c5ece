"""SCRAM of the server, against our client and against scramp."""

import base64

import pytest
import scramp

from barnabas.base.randomness import Random
from barnabas.client.scram import HASHES, ScramClient, salted_password
from barnabas.security.sasl import Identity, SaslFailed
from barnabas.security.scram_credentials import (
    ScramCredentials,
    credential_of,
    credential_text,
    parse_credential,
)
from barnabas.security.scram_server import ScramServer
from barnabas.security.token_cache import TokenCache
from barnabas.znodes.token_layout import DelegationToken

NOW = 1_000
SALT = b"salt of the earth"
NO_TOKENS = TokenCache("", Random(1))


def credentials(user: str = "al,ice=", password: str = "secret") -> ScramCredentials:
    found = ScramCredentials()
    config = {}
    for mechanism, algorithm in HASHES.items():
        salted = salted_password(algorithm, password, SALT, 4096)
        config[mechanism] = credential_text(credential_of(mechanism, salted, SALT, 4096))
    found.know(user, config)
    return found


def server(mechanism: str = "SCRAM-SHA-256") -> ScramServer:
    return ScramServer(mechanism, HASHES[mechanism], credentials(), NO_TOKENS, Random(1))


@pytest.mark.parametrize("mechanism", HASHES)
def test_s14_our_client_and_scramp_are_authenticated(mechanism: str) -> None:
    one = server(mechanism)
    client = ScramClient(HASHES[mechanism], "al,ice=", "secret", "nonce")
    client.verify(one.respond(client.final(one.respond(client.first(), NOW)), NOW))
    assert one.identity == Identity("al,ice=")

    known = credentials("bob", "p")
    other = ScramServer(mechanism, HASHES[mechanism], known, NO_TOKENS, Random(2))
    theirs = scramp.ScramClient([mechanism], "bob", "p")
    theirs.set_server_first(other.respond(theirs.get_client_first().encode(), NOW).decode())
    theirs.set_server_final(other.respond(theirs.get_client_final().encode(), NOW).decode())
    assert other.identity == Identity("bob")


@pytest.mark.parametrize("user", ["al,ice=", "nobody"])
def test_s12_a_wrong_password_and_an_unknown_user_fail_at_the_same_step(user: str) -> None:
    one = server()
    client = ScramClient("sha256", user, "wrong", "nonce")
    final = client.final(one.respond(client.first(), NOW))
    with pytest.raises(SaslFailed) as failed:
        one.respond(final, NOW)
    assert failed.value.message is None
    assert one.identity is None


def test_s12_an_unknown_user_has_the_same_salt_every_time() -> None:
    first = ScramClient("sha256", "nobody", "x", "nonce").first()
    challenges = [server().respond(first, NOW) for _ in range(2)]
    assert challenges[0].partition(b",s=")[2] == challenges[1].partition(b",s=")[2]


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"p=tls-unique,,n=a,r=b",
        b"n,,n=a",
        b"n,,r=b",
        b"n,,n=a=,r=b",
        b"n,a=bob,n=alice,r=b",
        b"\xff\xfe",
        b"n,,m=x,n=a,r=b",
    ],
)
def test_s14_a_malformed_first_message_is_refused(first: bytes) -> None:
    with pytest.raises(SaslFailed):
        server().respond(first, NOW)


@pytest.mark.parametrize("nonce", ["nonce", "", "other", "nonceX"])
def test_s14_the_whole_nonce_is_checked(nonce: str) -> None:
    one = server()
    client = ScramClient("sha256", "al,ice=", "secret", "nonce")
    final = client.final(one.respond(client.first(), NOW)).decode()
    parts = dict(part.partition("=")[::2] for part in final.split(","))
    changed = f"c=biws,r={nonce},p={parts['p']}".encode()
    with pytest.raises(SaslFailed):
        one.respond(changed, NOW)
    assert one.identity is None


def test_s14_tokenauth_authenticates_the_owner_of_a_delegation_token() -> None:
    tokens = TokenCache("the key of the brokers", Random(1))
    tokens.put(DelegationToken("id1", "User:owner", "User:owner", (), NOW, NOW + 9, NOW + 9))
    secret = base64.b64encode(tokens.hmac("id1")).decode()

    def conversation(now: int) -> ScramServer:
        one = ScramServer("SCRAM-SHA-512", "sha512", ScramCredentials(), tokens, Random(1))
        client = ScramClient("sha512", "id1", secret, "nonce", is_token=True)
        client.verify(one.respond(client.final(one.respond(client.first(), now)), now))
        return one

    assert conversation(NOW).identity == Identity("owner", NOW + 9, is_token=True)
    with pytest.raises(SaslFailed):
        conversation(NOW + 10)
    tokens.remove("id1")
    with pytest.raises(SaslFailed):
        conversation(NOW)
    plain = ScramServer("SCRAM-SHA-512", "sha512", ScramCredentials(), tokens, Random(1))
    client = ScramClient("sha512", "id1", secret, "nonce")
    with pytest.raises(SaslFailed):
        plain.respond(client.final(plain.respond(client.first(), NOW)), NOW)


def test_s15_a_credential_has_kafkas_form() -> None:
    salted = salted_password("sha256", "secret", SALT, 4096)
    text = credential_text(credential_of("SCRAM-SHA-256", salted, SALT, 4096))
    assert text.startswith(f"salt={base64.b64encode(SALT).decode()},stored_key=")
    assert text.endswith(",iterations=4096")
    assert credential_text(parse_credential(text)) == text
    with pytest.raises(ValueError, match="not a SCRAM credential"):
        parse_credential("salt=x")
