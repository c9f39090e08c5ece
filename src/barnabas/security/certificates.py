"""The names in a certificate, and whether a key store is trusted by a trust store."""

from typing import NamedTuple

from barnabas.base.errors import ConfigError
from barnabas.client.key_stores import KeyStore
from barnabas.security.distinguished_name import name_text


class CertificateNames(NamedTuple):
    subject: str
    alternatives: tuple[str, ...]


def names_of(chain: str) -> CertificateNames:
    """The names in the first certificate of a chain in PEM."""
    from cryptography import x509

    certificate = x509.load_pem_x509_certificates(chain.encode())[0]
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        found = x509.SubjectAlternativeName([])
    alternatives = tuple(str(each.value) for each in found)
    return CertificateNames(name_text(certificate.subject.public_bytes()), alternatives)


def check_trusted(own: KeyStore | None, trusted: str | None) -> None:
    """Other brokers verify our certificate with the same trust store.

    Raises  ConfigError, unless one of the trusted certificates signed the last of the chain, or
            is part of it
    """
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    if own is None or trusted is None:
        return
    chain = x509.load_pem_x509_certificates(own.chain.encode())
    roots = x509.load_pem_x509_certificates(trusted[trusted.index("-----BEGIN CERT") :].encode())
    for certificate in chain:
        if certificate in roots:
            return
        for root in roots:
            try:
                certificate.verify_directly_issued_by(root)
            except (ValueError, TypeError, InvalidSignature):
                continue
            return
    raise ConfigError(
        "ssl.keystore.location: the certificate of the inter-broker listener is not signed by any"
        " in ssl.truststore.location, so no other broker would trust it"
    )
