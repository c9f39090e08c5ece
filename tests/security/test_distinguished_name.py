"""Distinguished names, as Java writes them."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from barnabas.security.distinguished_name import name_text

JAVA = """
import java.nio.file.*; import java.util.HexFormat; import javax.security.auth.x500.X500Principal;
public class Names { public static void main(String[] a) throws Exception {
  for (String each : a)
    System.out.println(new X500Principal(HexFormat.of().parseHex(each)).getName());
} }
"""


def name(*rdns: list[Any]) -> bytes:
    return x509.Name([x509.RelativeDistinguishedName(rdn) for rdn in rdns]).public_bytes()


def one(oid: x509.ObjectIdentifier, value: str, kind: _ASN1Type | None = None) -> list[Any]:
    return [x509.NameAttribute(oid, value, kind)]


NAMES = {
    "C=DE,O=Example": name(
        one(NameOID.ORGANIZATION_NAME, "Example"), one(NameOID.COUNTRY_NAME, "DE")
    ),
    "CN=alice,OU=Ops,O=Example": name(
        one(NameOID.ORGANIZATION_NAME, "Example"),
        one(NameOID.ORGANIZATIONAL_UNIT_NAME, "Ops"),
        one(NameOID.COMMON_NAME, "alice"),
    ),
    "CN=a\\\\,b\\\\+c\\\\;\\\\<d\\\\>\\\\#": name(one(NameOID.COMMON_NAME, "a,b+c;<d>#")),
    "CN=\\\\ two  spaces\\\\ ": name(one(NameOID.COMMON_NAME, " two  spaces ")),
    "CN=Jürgen": name(one(NameOID.COMMON_NAME, "Jürgen")),
    "mail": name(one(NameOID.EMAIL_ADDRESS, "a@b.c"), one(NameOID.COMMON_NAME, "x")),
    "dc": name(one(NameOID.DOMAIN_COMPONENT, "org"), one(NameOID.USER_ID, "u1")),
    "street": name(one(NameOID.STREET_ADDRESS, "S 1"), one(NameOID.STATE_OR_PROVINCE_NAME, "B")),
    "two": name([*one(NameOID.COMMON_NAME, "x"), *one(NameOID.USER_ID, "y")]),
    "bmp": name(one(NameOID.COMMON_NAME, "ü", _ASN1Type.BMPString)),
    "serial": name(one(NameOID.SERIAL_NUMBER, "12")),
}


def test_s8_the_last_part_comes_first() -> None:
    for text in ("C=DE,O=Example", "CN=alice,OU=Ops,O=Example"):
        assert name_text(NAMES[text]) == text
    assert name_text(NAMES["mail"]) == "CN=x,1.2.840.113549.1.9.1=#16056140622e63"


@pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")
def test_s8_names_are_written_as_java_writes_them(tmp_path: Path) -> None:
    source = tmp_path / "Names.java"
    source.write_text(JAVA)
    encoded = [each.hex() for each in NAMES.values()]
    done = subprocess.run(
        ["java", "-Dstdout.encoding=UTF-8", str(source), *encoded],
        capture_output=True,
        text=True,
        check=True,
        encoding="utf-8",
    )
    theirs = done.stdout.splitlines()
    assert [name_text(each) for each in NAMES.values()] == theirs
