"""The TLS contexts of both sides: versions, ciphers, stores and the check of host names."""

import ssl
from collections.abc import Mapping
from typing import Final

from barnabas.base.errors import ConfigError
from barnabas.client.key_stores import load_stores, read_key_store, read_trust_store
from barnabas.client.tls_alerts import AlertingObject

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
# Java's names of cipher suites of TLS 1.2, which OpenSSL writes otherwise. TLS 1.3 has the same.
_KEY_EXCHANGES: Final = ("ECDHE_RSA", "ECDHE_ECDSA", "DHE_RSA", "RSA")


def client_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """The context of a client. Raises ConfigError, which begins with a property's name."""
    trusted = read_trust_store(properties)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if trusted is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    context.check_hostname = algorithm not in ("", "none")
    if properties.get("enable.ssl.certificate.verification", "true").strip().lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    _restrict(context, properties)
    load_stores(context, read_key_store(properties), trusted)
    return context


def server_context(properties: Mapping[str, str], client_auth: str) -> ssl.SSLContext:
    """The context of a listener. Raises ConfigError, which begins with a property's name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own = read_key_store(properties)
    if own is None:
        raise ConfigError(
            "ssl.keystore.location: a listener with TLS needs a key and a certificate, here or in"
            " ssl.keystore.key and ssl.keystore.certificate.chain"
        )
    trusted = read_trust_store(properties)
    verify = _CLIENT_AUTH[client_auth.strip().lower()]
    if verify is not ssl.CERT_NONE and trusted is None:
        raise ConfigError(
            f"ssl.truststore.location: ssl.client.auth={client_auth} needs the certificates that"
            " clients may be signed by"
        )
    _restrict(context, properties)
    load_stores(context, own, trusted)
    context.verify_mode = verify
    # A session that is resumed would keep the rights of a certificate that was replaced.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    context.sslobject_class = AlertingObject
    return context


def _restrict(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    """Allow only the versions and cipher suites that are wanted."""
    text = properties.get("ssl.enabled.protocols") or "TLSv1.2,TLSv1.3"
    wanted = [item.strip() for item in text.split(",") if item.strip()]
    known = [_VERSIONS[name] for name in wanted if name in _VERSIONS]
    if not known:
        raise ConfigError(f"ssl.enabled.protocols is {text!r}: only TLSv1.2 and TLSv1.3 are served")
    context.minimum_version, context.maximum_version = min(known), max(known)
    suites = [item.strip() for item in properties.get("ssl.cipher.suites", "").split(",")]
    older = [_openssl_name(name) for name in suites if name and not _is_of_tls_1_3(name)]
    try:
        if older:
            context.set_ciphers(":".join(older))
    except ssl.SSLError:
        raise ConfigError(f"ssl.cipher.suites: OpenSSL has none of {', '.join(older)}") from None
    if any(suites) and not older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3


def _is_of_tls_1_3(name: str) -> bool:
    return name.startswith("TLS_") and "_WITH_" not in name


def _openssl_name(name: str) -> str:
    """OpenSSL's name of a suite: ECDHE-RSA-AES128-GCM-SHA256 for TLS_ECDHE_RSA_WITH_AES_128_..."""
    exchange, with_, cipher = name.removeprefix("TLS_").partition("_WITH_")
    if not with_ or exchange not in _KEY_EXCHANGES:
        return name
    cipher = cipher.replace("AES_128", "AES128").replace("AES_256", "AES256")
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305").replace("_CBC_", "_")
    prefix = "" if exchange == "RSA" else f"{exchange}_"
    return f"{prefix}{cipher}".replace("_", "-")
