"""Certificates of the small authority."""

import ssl
from contextlib import suppress
from pathlib import Path

from barnabas.security.certificate_authority import CertificateAuthority


def test_a_client_that_verifies_strictly_accepts_a_certificate(tmp_path: Path) -> None:
    """As Python does by default since 3.13."""
    authority = CertificateAuthority.create(tmp_path)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(authority.issue("broker", ["127.0.0.1"]).pem)
    verifying = ssl.create_default_context(cafile=authority.certificate_file)
    verifying.verify_flags |= ssl.VERIFY_X509_STRICT
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = verifying.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    server = serving.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(3):
        for end in (client, server):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
    assert client.getpeercert()
