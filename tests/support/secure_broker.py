"""A broker with a listener for each way to authenticate, and the logins of its users."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import admin
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

from barnabas.base.ports import free_port
from barnabas.config.jaas import jaas_text
from barnabas.security.certificate_authority import CertificateAuthority
from tests.support.broker import BrokerProcess
from tests.support.clients import PATIENCE_S
from tests.support.logins import Login, confluent

# The protocol of each listener. TOKENS takes signed bearer tokens only; the certificate of
# ELSEWHERE is for another host.
LISTENERS: Final = {
    "SSL": "SSL",
    "MUTUAL": "SSL",
    "ELSEWHERE": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "TOKENS": "SASL_SSL",
}
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_SASL: Final = [
    f"{protocol} {name}" for protocol in ("SASL_PLAINTEXT", "SASL_SSL") for name in _MECHANISMS
]
WAYS: Final = ["SSL", "MUTUAL", *_SASL]
SIGNED: Final = "TOKENS OAUTHBEARER"
WRONG: Final = [
    *(f"{way}: wrong password" for way in _SASL if "OAUTH" not in way),
    *(f"{way}: foreign authority" for way in ("SSL", "MUTUAL", "SASL_SSL SCRAM-SHA-512")),
    "ELSEWHERE: another host name",
    "MUTUAL: no certificate",
    f"{SIGNED}: nobody signed",
]
FORGED: Final = f"{SIGNED}: a stranger signed"
_PASSWORD: Final = 'p"l\\ain'
_SUPER_USERS: Final = "User:plain;User:scram;User:bearer;User:signed;User:ANONYMOUS;"


class SecureBroker(NamedTuple):
    """The broker, and the login of every way into it and of every way that it refuses."""

    process: BrokerProcess
    logins: Mapping[str, Login]


def _logins(folder: Path, ports: Mapping[str, int]) -> dict[str, Login]:
    def login(listener: str, mechanism: str = "", **more: Any) -> Login:
        protocol = LISTENERS[listener]
        authority = folder / "ca.pem" if protocol.endswith("SSL") else None
        at = f"127.0.0.1:{ports[listener]}"
        return Login(at, protocol, mechanism, authority=authority, **more)

    users = {
        "PLAIN": ("plain", _PASSWORD),
        "SCRAM-SHA-256": ("scram", "scram-secret"),
        "SCRAM-SHA-512": ("scram", "scram-secret"),
        "OAUTHBEARER": ("bearer", ""),
    }
    found = {"SSL": login("SSL"), "MUTUAL": login("MUTUAL", certificate=folder / "alice.pem")}
    for way in _SASL:
        listener, mechanism = way.split()
        user, password = users[mechanism]
        found[way] = login(listener, mechanism, user=user, password=password)
        found[f"{way}: wrong password"] = replace(found[way], password="guessed")
    for way in ("SSL", "MUTUAL", "SASL_SSL SCRAM-SHA-512"):
        foreign = folder / "foreign" / "ca.pem"
        found[f"{way}: foreign authority"] = replace(found[way], authority=foreign)
    found["ELSEWHERE: another host name"] = login("ELSEWHERE")
    found["MUTUAL: no certificate"] = login("MUTUAL")
    tokens = login("TOKENS", "OAUTHBEARER", user="signed")
    found[SIGNED] = replace(tokens, token=folder / "token")
    found[FORGED] = replace(tokens, token=folder / "forged")
    found[f"{SIGNED}: nobody signed"] = tokens
    return found


def _make_files(folder: Path) -> None:
    authority = CertificateAuthority.create(folder)
    authority.issue("broker", ["localhost", "127.0.0.1"])
    authority.issue("elsewhere", ["elsewhere.example.org"])
    authority.issue("alice")
    CertificateAuthority.create(folder / "foreign")
    now = int(time.time())
    claims = {"sub": "signed", "iat": now - 1, "exp": now + 3600}
    for name in ("token", "forged"):
        key = RSAKey.generate_key(2048, {"kid": "k1", "use": "sig"}, private=True)
        header = {"alg": "RS256", "kid": "k1"}
        (folder / name).write_text(jwt.encode(header, claims, key, algorithms=["RS256"]))
        keys = json.dumps(KeySet([key]).as_dict(private=False))
        (folder / f"{name}.jwks").write_text(keys)


def _properties(folder: Path, ports: Mapping[str, int]) -> dict[str, str]:
    users = {"username": "plain", "password": _PASSWORD, "user_plain": _PASSWORD}
    plain = jaas_text("PlainLoginModule", users)
    bearer = jaas_text("OAuthBearerLoginModule", {"unsecuredLoginStringClaim_sub": "bearer"})
    keys = (folder / "token.jwks").as_uri()
    jaas = {
        f"listener.name.{name.lower()}.{mechanism}.sasl.jaas.config": text
        for name, protocol in LISTENERS.items()
        if protocol.startswith("SASL")
        for mechanism, text in (("plain", plain), ("oauthbearer", bearer))
    }
    return {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": ",".join(map(":".join, LISTENERS.items())),
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.enabled.mechanisms": ",".join(_MECHANISMS),
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.keystore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "ssl.truststore.type": "PEM",
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.elsewhere.ssl.keystore.location": str(folder / "elsewhere.pem"),
        "listener.name.tokens.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.tokens.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": keys,
        "barnabas.sasl.oauthbearer.allowed.urls": keys,
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": _SUPER_USERS + "User:CN=alice,O=Barnabas",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "group.initial.rebalance.delay.ms": "0",
        **jaas,
    }


def _add_users(login: Login) -> None:
    names: Any = admin
    wanted = [
        names.UserScramCredentialUpsertion(
            "scram", names.ScramCredentialInfo(mechanism, 4096), b"scram-secret"
        )
        for mechanism in (names.ScramMechanism.SCRAM_SHA_256, names.ScramMechanism.SCRAM_SHA_512)
    ]
    client = admin.AdminClient(confluent(login))
    for future in client.alter_user_scram_credentials(wanted).values():
        future.result(PATIENCE_S)


@contextmanager
def secure_broker(folder: Path) -> Iterator[SecureBroker]:
    """A broker that runs within the block."""
    files, data = folder / "files", folder / "broker"
    data.mkdir(parents=True)
    _make_files(files)
    ports = {name: free_port() for name in LISTENERS}
    overrides = [f"{key}={value}" for key, value in _properties(files, ports).items()]
    process = BrokerProcess(data, overrides)
    logins = _logins(files, ports)
    with process.running():
        _add_users(logins["SASL_SSL PLAIN"])
        yield SecureBroker(process, logins)
