"""The TLS of one listener: contexts, reload, refusals."""

import os
import socket
import ssl
import threading
from pathlib import Path

import pytest

from barnabas.base.errors import ConfigError
from barnabas.config.listener_values import ListenerValues
from barnabas.security.certificate_authority import STORE_PASSWORD, CertificateAuthority
from barnabas.security.principal import ANONYMOUS
from barnabas.security.tls_listener import TlsListener

DEFAULTS = {"ssl.client.auth": "none", "ssl.principal.mapping.rules": "DEFAULT"}


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    made = CertificateAuthority.create(tmp_path / "ca")
    made.issue("broker", ["localhost"])
    return made


def values(directory: Path, **more: str) -> ListenerValues:
    texts = {
        "ssl.keystore.location": str(directory / "broker.pem"),
        "ssl.truststore.location": str(directory / "ca.pem"),
    }
    texts |= {name.replace("_", "."): value for name, value in more.items()}
    return ListenerValues(texts, DEFAULTS, "SSL")


def served_serial(context: ssl.SSLContext) -> bytes:
    """The certificate that a client sees."""
    ours, theirs = socket.socketpair()
    client = ssl.create_default_context()
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE

    def serve() -> None:
        with context.wrap_socket(ours, server_side=True):
            pass

    thread = threading.Thread(target=serve)
    thread.start()
    with client.wrap_socket(theirs) as wrapped:
        certificate = wrapped.getpeercert(True)
    thread.join()
    assert certificate is not None
    return certificate


def test_s6_a_file_that_changed_is_used_for_new_connections(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    listener = TlsListener("SSL", "SSL", values(tmp_path / "ca"), True)
    before = listener.context(10.0)
    first = served_serial(before)
    authority.issue("broker", ["localhost"])
    assert listener.context(10.5) is before
    after = listener.context(12.0)
    assert served_serial(after) != first
    (tmp_path / "ca" / "broker.pem").write_text("garbage")
    assert listener.context(14.0) is after


def test_s6_another_name_is_refused_unless_it_is_allowed(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    listener = TlsListener("SSL", "SSL", values(tmp_path / "ca"), False)
    authority.issue("other", ["localhost"])
    other = str(tmp_path / "ca" / "other.pem")
    with pytest.raises(ConfigError, match="DistinguishedName does not match"):
        listener.check(values(tmp_path / "ca", ssl_keystore_location=other))
    allowed = values(
        tmp_path / "ca", ssl_keystore_location=other, **{"ssl.allow.dn.changes": "true"}
    )
    listener.follow(allowed)
    authority.issue("broker", ["elsewhere"])
    back = values(tmp_path / "ca", **{"ssl.allow.dn.changes": "true"})
    with pytest.raises(ConfigError, match="SubjectAltNames do not match"):
        listener.check(back)


def test_s6_a_store_is_neither_added_nor_removed(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    listener = TlsListener("SSL", "SSL", values(tmp_path / "ca"), False)
    with pytest.raises(ConfigError, match="truststore"):
        listener.check(values(tmp_path / "ca", ssl_truststore_location=""))


def test_s6_the_inter_broker_listener_must_trust_its_own_certificate(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    foreign = CertificateAuthority.create(tmp_path / "foreign")
    mixed = values(tmp_path / "ca", ssl_truststore_location=str(foreign.certificate_file))
    TlsListener("SSL", "SSL", mixed, False)
    with pytest.raises(ConfigError, match="not signed by any"):
        TlsListener("SSL", "SSL", mixed, True)


@pytest.mark.parametrize("auth", ["none", "requested", "required"])
def test_s4_client_certificates_are_asked_for_as_configured(
    authority: CertificateAuthority, tmp_path: Path, auth: str
) -> None:
    modes = {
        "none": ssl.CERT_NONE,
        "requested": ssl.CERT_OPTIONAL,
        "required": ssl.CERT_REQUIRED,
    }
    base = values(tmp_path / "ca", ssl_client_auth=auth)
    assert TlsListener("SSL", "SSL", base, False).context(0.0).verify_mode == modes[auth]
    assert TlsListener("SSL", "SASL_SSL", base, False).context(0.0).verify_mode == ssl.CERT_NONE
    own = values(tmp_path / "ca", **{"listener.name.ssl.ssl.client.auth": auth})
    assert TlsListener("SSL", "SASL_SSL", own, False).context(0.0).verify_mode == modes[auth]


def test_s4_versions_and_cipher_suites_are_restricted(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    only = values(
        tmp_path / "ca",
        ssl_enabled_protocols="TLSv1.2",
        ssl_cipher_suites="TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    )
    context = TlsListener("SSL", "SSL", only, False).context(0.0)
    assert context.maximum_version == ssl.TLSVersion.TLSv1_2
    names = [each["name"] for each in context.get_ciphers() if each["protocol"] == "TLSv1.2"]
    assert names == ["ECDHE-ECDSA-AES128-GCM-SHA256"]
    for wrong in ({"ssl_enabled_protocols": "SSLv3"}, {"ssl_cipher_suites": "NONSENSE"}):
        with pytest.raises(ConfigError, match=r"ssl\."):
            TlsListener("SSL", "SSL", values(tmp_path / "ca", **wrong), False)


def test_s5_pem_in_properties_and_pkcs12_are_the_same_certificate(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    ca = tmp_path / "ca"
    pem = (ca / "broker.pem").read_text()
    key, _, chain = pem.partition("-----END PRIVATE KEY-----\n")
    inline = {
        "ssl.keystore.key": key + "-----END PRIVATE KEY-----\n",
        "ssl.keystore.certificate.chain": chain,
        "ssl.truststore.certificates": (ca / "ca.pem").read_text(),
    }
    pkcs12 = {
        "ssl.keystore.location": str(ca / "broker.p12"),
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.truststore.location": str(ca / "ca.p12"),
        "ssl.truststore.password": STORE_PASSWORD,
    }
    seen = {
        served_serial(TlsListener("X", "SSL", each, True).context(0.0))
        for each in (
            values(ca),
            ListenerValues(inline, DEFAULTS, "X"),
            ListenerValues(pkcs12, DEFAULTS, "X"),
        )
    }
    assert len(seen) == 1


def test_s5_a_jks_store_is_refused_with_the_command_that_converts_it(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    store = tmp_path / "old.jks"
    store.write_bytes(bytes.fromhex("feedfeed00000002"))
    with pytest.raises(ConfigError, match="keytool -importkeystore"):
        TlsListener("X", "SSL", values(tmp_path / "ca", ssl_keystore_location=str(store)), False)


def test_s7_without_a_certificate_the_principal_is_anonymous(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    issued = authority.issue("alice")
    rules = values(tmp_path / "ca", ssl_principal_mapping_rules="RULE:^CN=(.*?),.*$/$1/")
    listener = TlsListener("SSL", "SSL", rules, False)
    assert listener.principal(None) == ANONYMOUS
    pem = issued.pem.read_text()
    first = pem[pem.index("-----BEGIN CERT") :].partition("-----END")[0]
    der = ssl.PEM_cert_to_DER_cert(f"{first}-----END CERTIFICATE-----\n")
    assert str(listener.principal(der)) == "User:alice"
    plain = TlsListener("SSL", "SSL", values(tmp_path / "ca"), False)
    assert str(plain.principal(der)) == "User:CN=alice,O=Barnabas"


def test_keys_are_readable_by_their_owner_only(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    for name in ("ca.key", "broker.pem", "broker.p12"):
        assert os.stat(tmp_path / "ca" / name).st_mode & 0o077 == 0
