"""Key stores and trust stores: PEM files, PEM in properties, PKCS12.

The names are those of Kafka's Java client; librdkafka's names for the same things work too.
Java's own format, JKS, is not read: `keytool` converts it, and the error says how.
"""

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.base.errors import ConfigError

if TYPE_CHECKING:
    import ssl

_JKS_MAGIC: Final = bytes.fromhex("feedfeed")
_PEM: Final = b"-----BEGIN"
_CERTIFICATE: Final = re.compile(
    r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL
)


class KeyStore(NamedTuple):
    """Our own key and the chain of its certificates, in PEM; the key may be encrypted."""

    chain: str
    key: str
    password: str


def read_key_store(properties: Mapping[str, str]) -> KeyStore | None:
    """The key store that the properties name; None without one. Raises ConfigError."""
    key_password = _first(properties, "ssl.key.password")
    chain = _first(properties, "ssl.keystore.certificate.chain", "ssl.certificate.pem")
    key = _first(properties, "ssl.keystore.key", "ssl.key.pem")
    if chain or key:
        if not (chain and key):
            raise ConfigError(
                "ssl.keystore.certificate.chain and ssl.keystore.key must be set together"
            )
        return KeyStore(chain, key, key_password)
    location = _first(properties, "ssl.keystore.location")
    if location:
        return _key_store_file(properties, location, key_password)
    certificate = _first(properties, "ssl.certificate.location")
    if certificate:
        own = _read("ssl.certificate.location", certificate)
        key_file = _first(properties, "ssl.key.location") or certificate
        key_text = _text(_read("ssl.key.location", key_file))
        return KeyStore(_certificates_of(_text(own)), key_text, key_password)
    return None


def read_trust_store(properties: Mapping[str, str]) -> str | None:
    """The trusted certificates in PEM; None if the properties name none. Raises ConfigError."""
    inline = _first(properties, "ssl.truststore.certificates", "ssl.ca.pem")
    if inline:
        return inline
    for name in ("ssl.truststore.location", "ssl.ca.location"):
        if location := properties.get(name):
            data = _read(name, location)
            if data.startswith(_JKS_MAGIC):
                raise _is_jks(name, location)
            if _PEM in data:
                return _text(data)
            return _pkcs12_trusted(name, data, properties.get("ssl.truststore.password", ""))
    return None


def store_files(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The files that the stores are read from."""
    names = ("ssl.keystore.location", "ssl.truststore.location")
    return tuple(properties[name] for name in names if properties.get(name))


@contextmanager
def in_a_file(text: str) -> Iterator[str]:
    """A file that only we can read, for functions that read keys from files alone."""
    descriptor, name = tempfile.mkstemp(suffix=".pem")  # mode 0600
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        yield name
    finally:
        Path(name).unlink()


def load_stores(context: "ssl.SSLContext", own: KeyStore | None, trusted: str | None) -> None:
    """Give the context its key and the certificates that it trusts. Raises ConfigError."""
    import ssl

    try:
        if trusted is not None:
            certificates = _certificates_of(trusted)
            if not certificates:
                raise ValueError("the trust store holds no certificate")
            context.load_verify_locations(cadata=certificates)
        if own is not None:
            with in_a_file(f"{own.chain}\n{own.key}\n") as file:
                # Without a password OpenSSL would ask for one on the terminal.
                context.load_cert_chain(file, password=own.password)
    except (ssl.SSLError, OSError, ValueError) as failure:
        raise ConfigError(f"ssl.* name certificates that cannot be read: {failure}") from None


def _certificates_of(text: str) -> str:
    """The certificates in PEM, without any key beside them."""
    return "\n".join(_CERTIFICATE.findall(text))


def _key_store_file(properties: Mapping[str, str], location: str, key_password: str) -> KeyStore:
    name = "ssl.keystore.location"
    data = _read(name, location)
    if data.startswith(_JKS_MAGIC):
        raise _is_jks(name, location)
    if _PEM in data:
        key = data
        if key_file := properties.get("ssl.key.location"):
            key = _read("ssl.key.location", key_file)
        return KeyStore(_text(data), _text(key) if key is not data else "", key_password)
    return _pkcs12_own(name, data, properties.get("ssl.keystore.password", key_password))


def _pkcs12_own(name: str, data: bytes, password: str) -> KeyStore:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import pkcs12

    try:
        key, certificate, others = pkcs12.load_key_and_certificates(
            data, password.encode() if password else None
        )
    except ValueError as failure:
        raise ConfigError(
            f"{name}: neither PEM nor PKCS12, or a wrong password: {failure}"
        ) from None
    if key is None or certificate is None:
        raise ConfigError(f"{name}: the PKCS12 store holds no key with its certificate")
    pem = serialization.Encoding.PEM
    key_text = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain = b"".join(each.public_bytes(pem) for each in (certificate, *others))
    return KeyStore(chain.decode(), key_text.decode(), "")


def _pkcs12_trusted(name: str, data: bytes, password: str) -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import pkcs12

    try:
        store = pkcs12.load_pkcs12(data, password.encode() if password else None)
    except ValueError as failure:
        raise ConfigError(
            f"{name}: neither PEM nor PKCS12, or a wrong password: {failure}"
        ) from None
    found = [each.certificate for each in (store.cert, *store.additional_certs) if each is not None]
    if not found:
        raise ConfigError(f"{name}: the PKCS12 store holds no certificate")
    pem = serialization.Encoding.PEM
    return b"".join(each.public_bytes(pem) for each in found).decode()


def _is_jks(name: str, location: str) -> ConfigError:
    return ConfigError(
        f"{name}: {location} is a JKS store, which only Java reads; convert it with"
        f" `keytool -importkeystore -srckeystore {location} -destkeystore {location}.p12"
        " -deststoretype PKCS12`, and set the store's type to PKCS12"
    )


def _first(properties: Mapping[str, str], *names: str) -> str:
    return next((properties[name] for name in names if properties.get(name)), "")


def _read(name: str, location: str) -> bytes:
    try:
        return Path(location).read_bytes()
    except OSError as failure:
        raise ConfigError(f"{name}: {location}: {failure.strerror}") from None


def _text(pem: bytes) -> str:
    return pem.decode("utf-8", "replace")
