"""A small certificate authority, for development and tests.

Its directory holds `ca.pem` and `ca.key`, and for each name that it issued a certificate for
`NAME.pem` (certificate and key in one file) and `NAME.p12`.
"""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from barnabas.base.clock import SystemClock
from barnabas.base.errors import ConfigError
from barnabas.base.private_files import write_private

_PEM: Final = serialization.Encoding.PEM
_ORGANIZATION: Final = "Barnabas"
STORE_PASSWORD: Final = "changeit"  # of PKCS12 files; Java asks for one


class Issued(NamedTuple):
    """The files of one certificate."""

    pem: Path
    pkcs12: Path


class CertificateAuthority:
    """Issues certificates that its own certificate, `ca.pem`, signs."""

    def __init__(self, directory: Path) -> None:
        """Raises ConfigError, if there is no authority in the directory."""
        self._directory = directory
        self.certificate_file = directory / "ca.pem"
        try:
            self._certificate = x509.load_pem_x509_certificate(self.certificate_file.read_bytes())
            key = serialization.load_pem_private_key((directory / "ca.key").read_bytes(), None)
        except OSError as failure:
            raise ConfigError(f"{failure.filename}: {failure.strerror}") from None
        except ValueError as failure:
            raise ConfigError(f"{directory}: not a certificate authority: {failure}") from None
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key = key

    @classmethod
    def create(cls, directory: Path, days: int = 3650) -> "CertificateAuthority":
        """A new authority. Raises ConfigError, if the directory has one already."""
        if (directory / "ca.key").exists():
            raise ConfigError(f"{directory}: there is a certificate authority already")
        directory.mkdir(parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("Barnabas development CA")
        builder = _builder(name, name, key.public_key(), key.public_key(), days).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        certificate = builder.sign(key, hashes.SHA256())
        write_private(directory / "ca.pem", certificate.public_bytes(_PEM), 0o644)
        _write_trust_store(directory / "ca.p12", certificate)
        # The last file: with it the authority is whole.
        write_private(directory / "ca.key", _key_text(key))
        return cls(directory)

    @classmethod
    def open_or_create(cls, directory: Path) -> "CertificateAuthority":
        return cls(directory) if (directory / "ca.key").exists() else cls.create(directory)

    def issue(self, name: str, hosts: Sequence[str] = (), days: int = 825) -> Issued:
        """A certificate with `CN=name`, for servers at these hosts and for clients."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject, issuer = _name(name), self._certificate.subject
        builder = _builder(subject, issuer, key.public_key(), self._key.public_key(), days)
        builder = builder.add_extension(x509.BasicConstraints(False, None), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(both), critical=False)
        if hosts:
            names = [_alternative(host) for host in hosts]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        files = Issued(self._directory / f"{name}.pem", self._directory / f"{name}.p12")
        chain = certificate.public_bytes(_PEM) + self._certificate.public_bytes(_PEM)
        write_private(files.pem, _key_text(key) + chain)
        store = pkcs12.serialize_key_and_certificates(
            name.encode(),
            key,
            certificate,
            [self._certificate],
            serialization.BestAvailableEncryption(STORE_PASSWORD.encode()),
        )
        write_private(files.pkcs12, store)
        return files


def _name(common_name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, _ORGANIZATION),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    issuers_key: ec.EllipticCurvePublicKey,
    days: int,
) -> x509.CertificateBuilder:
    now = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
    builder = x509.CertificateBuilder(
        subject_name=subject,
        issuer_name=issuer,
        public_key=key,
        serial_number=x509.random_serial_number(),
        not_valid_before=now - timedelta(days=1),
        not_valid_after=now + timedelta(days=days),
    )
    # Python 3.13 refuses certificates without these.
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuers_key)
    return builder.add_extension(authority, critical=False)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_text(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def _write_trust_store(file: Path, certificate: x509.Certificate) -> None:
    """A PKCS12 store that Java accepts as a trust store."""
    trusted = pkcs12.PKCS12Certificate(certificate, b"ca")
    store = pkcs12.serialize_java_truststore(
        [trusted], serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
    )
    write_private(file, store, 0o644)
