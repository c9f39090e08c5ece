"""Config keys of TLS. None is supported yet."""

from typing import Final

KEYS: Final = """
ssl.client.auth string none required|requested|none medium per-broker
    Whether clients must show a certificate. Not supported yet.
ssl.protocol string TLSv1.3 - medium per-broker
    The newest TLS version to offer. Not supported yet.
ssl.enabled.protocols list TLSv1.2,TLSv1.3 - medium per-broker
    The TLS versions to offer. Not supported yet.
ssl.cipher.suites list "" - medium per-broker
    The cipher suites to offer; all of the library's when empty. Not supported yet.
ssl.provider string null - medium per-broker
    The Java security provider; ignored.
ssl.keystore.location string null - medium per-broker
    The file with the broker's key and certificate. Not supported yet.
ssl.keystore.type string JKS - medium per-broker
    The format of that file. Not supported yet.
ssl.keystore.password password null - medium per-broker
    The password of that file. Not supported yet.
ssl.keystore.key password null - medium per-broker
    The broker's key itself, in PEM. Not supported yet.
ssl.keystore.certificate.chain password null - medium per-broker
    The broker's certificates themselves, in PEM. Not supported yet.
ssl.key.password password null - medium per-broker
    The password of the key. Not supported yet.
ssl.truststore.location string null - medium per-broker
    The file with the certificates that clients may be signed by. Not supported yet.
ssl.truststore.type string JKS - medium per-broker
    The format of that file. Not supported yet.
ssl.truststore.password password null - medium per-broker
    The password of that file. Not supported yet.
ssl.truststore.certificates password null - medium per-broker
    These certificates themselves, in PEM. Not supported yet.
ssl.keymanager.algorithm string SunX509 - medium per-broker
    The Java key manager; ignored.
ssl.trustmanager.algorithm string PKIX - medium per-broker
    The Java trust manager; ignored.
ssl.endpoint.identification.algorithm string https - low per-broker
    Whether a broker's certificate must name its host; empty to not check. Not supported yet.
ssl.secure.random.implementation string null - low per-broker
    The Java source of randomness; ignored.
ssl.engine.factory.class class null - low per-broker
    A Java class that does TLS; ignored.
ssl.principal.mapping.rules string DEFAULT - low
    How the name in a certificate becomes a principal. Not supported yet.
ssl.allow.dn.changes boolean false - low
    Whether a new certificate may have another name. Not supported yet.
ssl.allow.san.changes boolean false - low
    Whether a new certificate may have other alternative names. Not supported yet.
"""
