"""Bearer tokens: what is accepted, what is refused, and how their keys are found."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey

from barnabas.base.errors import ConfigError
from barnabas.config.listener_values import ListenerValues
from barnabas.security.oauth_settings import check_url, read_tokens
from barnabas.security.oauth_tokens import SignedTokens, TokenRules, UnsignedTokens
from barnabas.security.oauthbearer import OauthBearer
from barnabas.security.sasl import Identity, SaslFailed
from barnabas.server.cluster.jwks_refresher import fetch

NOW = 1_700_000_000_000
CLAIMS: dict[str, Any] = {"sub": "alice", "iat": NOW // 1000 - 10, "exp": NOW // 1000 + 60}
KEY = RSAKey.generate_key(2048, {"kid": "k1", "use": "sig"}, private=True)
RULES = TokenRules(issuer="https://issuer", audiences=frozenset({"kafka"}))


def signed(claims: dict[str, Any], key: Any = KEY, alg: str = "RS256") -> str:
    return jwt.encode({"alg": alg, "kid": key.kid or "k1"}, claims, key, algorithms=[alg])


ANY = TokenRules()


def tokens(rules: TokenRules = ANY) -> SignedTokens:
    found = SignedTokens(rules)
    found.use(json.dumps(KeySet([KEY]).as_dict(private=False)))
    return found


def unsigned(claims: dict[str, Any], alg: str = "none") -> str:
    parts = (json.dumps(part).encode() for part in ({"alg": alg}, claims))
    return ".".join(base64.urlsafe_b64encode(each).rstrip(b"=").decode() for each in parts) + "."


def test_s17_a_signed_token_names_its_subject_and_its_end() -> None:
    assert tokens().validate(signed(CLAIMS), NOW) == Identity("alice", 1000 * CLAIMS["exp"])
    wanted = {**CLAIMS, "iss": "https://issuer", "aud": ["kafka", "x"]}
    assert tokens(RULES).validate(signed(wanted), NOW).name == "alice"


@pytest.mark.parametrize(
    "change",
    [
        {"exp": NOW // 1000 - 31},
        {"exp": None},
        {"iat": None},
        {"iat": NOW // 1000 + 100},
        {"sub": ""},
        {"sub": None},
        {"iss": "https://other"},
        {"aud": "other"},
        {"exp": "soon"},
        {"nbf": NOW // 1000 + 100},
    ],
)
def test_s17_a_claim_that_is_wrong_or_missing_refuses_the_token(change: dict[str, Any]) -> None:
    claims = {**CLAIMS, "iss": "https://issuer", "aud": "kafka", **change}
    claims = {name: value for name, value in claims.items() if value is not None}
    with pytest.raises(SaslFailed):
        tokens(RULES).validate(signed(claims), NOW)


def test_s17_alg_none_a_shared_secret_and_another_key_are_refused() -> None:
    other = RSAKey.generate_key(2048, {"kid": "k1"}, private=True)
    public = json.dumps(KEY.as_dict(private=False))
    secret = OctKey.import_key(public)
    for token in (
        unsigned(CLAIMS),
        unsigned(CLAIMS, "None"),
        signed(CLAIMS, other),
        jwt.encode({"alg": "HS256", "kid": "k1"}, CLAIMS, secret, algorithms=["HS256"]),
        signed(CLAIMS, ECKey.generate_key("P-256", {"kid": "k9"}, private=True), "ES256"),
        signed(CLAIMS)[:-4] + "AAAA",
        "",
        "a.b",
        "a.b.c",
    ):
        with pytest.raises(SaslFailed):
            tokens().validate(token, NOW)


def test_s17_unsigned_tokens_are_for_tests_only() -> None:
    loose = UnsignedTokens(TokenRules(skew_ms=0))
    assert loose.validate(unsigned(CLAIMS), NOW).name == "alice"
    for token in (signed(CLAIMS), unsigned({**CLAIMS, "exp": 5}), unsigned(CLAIMS, "RS256")):
        with pytest.raises(SaslFailed):
            loose.validate(token, NOW)


def test_s18_a_failure_is_json_then_the_clients_byte_then_the_error() -> None:
    bearer = OauthBearer(tokens())
    status = bearer.respond(b"n,,\x01auth=Bearer a.b.c\x01\x01", NOW)
    assert json.loads(status) == {"status": "invalid_token"}
    with pytest.raises(SaslFailed, match="invalid_token"):
        bearer.respond(b"\x01", NOW)
    assert bearer.identity is None


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,\x01\x01",
        b"n,,auth=Bearer x",
        b"n,,\x01auth=Basic x\x01\x01",
        b"n,,\x01auth=Bearer x\x01tra-ce=1\x01\x01",
        b"n,,\x01auth=Bearer x\x01trace=\x02\x01\x01",
    ],
)
def test_s18_a_malformed_message_and_bad_extensions_are_refused(message: bytes) -> None:
    with pytest.raises(SaslFailed):
        OauthBearer(tokens()).respond(message, NOW)


def test_s18_extensions_and_the_own_authorization_id_are_accepted() -> None:
    bearer = OauthBearer(tokens())
    message = f"n,a=alice,\x01auth=Bearer {signed(CLAIMS)}\x01traceId=7\x01\x01"
    assert bearer.respond(message.encode(), NOW) == b""
    assert bearer.identity is not None
    other = message.replace("a=alice", "a=bob")
    with pytest.raises(SaslFailed, match="authorization id"):
        OauthBearer(tokens()).respond(other.encode(), NOW)


def test_s19_an_unknown_key_is_looked_for_once_a_minute_and_sixteen_are_remembered() -> None:
    found = tokens()

    def ask(kid: str, now_ms: int) -> bool:
        key = ECKey.generate_key("P-256", {"kid": kid}, private=True)
        with pytest.raises(SaslFailed):
            found.validate(signed(CLAIMS, key, "ES256"), now_ms)
        wants, found.wants_refresh = found.wants_refresh, False
        return wants

    assert ask("x", NOW)
    assert not ask("x", NOW + 59_000)
    assert ask("x", NOW + 61_000)
    assert not ask("y" * 1001, NOW)
    for number in range(16):
        ask(f"n{number}", NOW)
    assert ask("x", NOW + 62_000)


def test_s20_only_allowed_urls_are_read(tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps(KeySet([KEY]).as_dict(private=False)))
    url = f"file://{file}"
    check_url(url, f"https://x, {url}")
    for bad, allowed in ((url, ""), (url, url + "x"), ("http://x", "http://x"), ("gopher:x", "*")):
        with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url"):
            check_url(bad, allowed)
    texts = {
        "sasl.oauthbearer.jwks.endpoint.url": url,
        "barnabas.sasl.oauthbearer.allowed.urls": url,
    }
    defaults = {
        "sasl.oauthbearer.jwks.endpoint.refresh.ms": "3600000",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "100",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "10000",
        "sasl.oauthbearer.clock.skew.seconds": "30",
        "sasl.oauthbearer.sub.claim.name": "sub",
        "sasl.oauthbearer.scope.claim.name": "scope",
    }
    checked, source = read_tokens("X", ListenerValues(texts, defaults, "X"))
    assert source is not None
    source.tokens.use(fetch(source.url, source.tls))
    assert checked.validate(signed(CLAIMS), NOW).name == "alice"


def test_s17_arrays_in_arrays_are_refused_as_any_other_token() -> None:
    deep = base64.urlsafe_b64encode(b"[" * 30_000).decode()
    none = base64.urlsafe_b64encode(b'{"alg": "none"}').decode().rstrip("=")
    for token in (f"{deep}.a.b", f"{none}.{deep}."):
        with pytest.raises(SaslFailed):
            tokens().validate(token, NOW)
        with pytest.raises(SaslFailed):
            UnsignedTokens(ANY).validate(token, NOW)
        with pytest.raises(SaslFailed):
            SignedTokens(ANY).validate(token, NOW)  # no key is known yet
