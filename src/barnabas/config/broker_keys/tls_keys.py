"""Config keys of TLS."""

from typing import Final

KEYS: Final = """
ssl.client.auth string none required|requested|none medium per-broker acts
    Whether clients must show a certificate.
ssl.protocol string TLSv1.3 - medium per-broker
    The newest TLS version that Java offers; ignored: ssl.enabled.protocols says it.
ssl.enabled.protocols list TLSv1.2,TLSv1.3 - medium per-broker acts
    The TLS versions to offer.
ssl.cipher.suites list "" - medium per-broker acts
    The cipher suites to offer; all of the library's when empty.
ssl.provider string null - medium per-broker
    The Java security provider; ignored.
ssl.keystore.location string null - medium per-broker acts
    The file with the broker's key and certificate.
ssl.keystore.type string JKS - medium per-broker acts
    The format of that file: PEM or PKCS12, which is seen by its content. JKS is not read: keytool
    converts it to PKCS12.
ssl.keystore.password password null - medium per-broker acts
    The password of that file.
ssl.keystore.key password null - medium per-broker acts
    The broker's key itself, in PEM.
ssl.keystore.certificate.chain password null - medium per-broker acts
    The broker's certificates themselves, in PEM.
ssl.key.password password null - medium per-broker acts
    The password of the key.
ssl.truststore.location string null - medium per-broker acts
    The file with the certificates that clients may be signed by.
ssl.truststore.type string JKS - medium per-broker acts
    The format of that file: PEM or PKCS12.
ssl.truststore.password password null - medium per-broker acts
    The password of that file.
ssl.truststore.certificates password null - medium per-broker acts
    These certificates themselves, in PEM.
ssl.keymanager.algorithm string SunX509 - medium per-broker
    The Java key manager; ignored.
ssl.trustmanager.algorithm string PKIX - medium per-broker
    The Java trust manager; ignored.
ssl.endpoint.identification.algorithm string https - low per-broker acts
    Whether a broker's certificate must name its host; empty to not check.
ssl.secure.random.implementation string null - low per-broker
    The Java source of randomness; ignored.
ssl.engine.factory.class class null - low per-broker
    A Java class that does TLS; ignored.
ssl.principal.mapping.rules string DEFAULT - low acts
    How the name in a certificate becomes a principal.
ssl.allow.dn.changes boolean false - low acts
    Whether a new certificate may have another name.
ssl.allow.san.changes boolean false - low acts
    Whether a new certificate may have other alternative names.
"""
