"""Distinguished names in the form and order of Java's X500Principal.getName() (RFC 2253).

ACLs name certificates by it. The last part of the encoding comes first: `CN=alice,O=Example`.
Attributes without a keyword in RFC 2253 are written as `OID=#HEX`, as Java does.
"""

from collections.abc import Iterator
from typing import Final

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
# UTF8, Printable, T61, IA5, General, Universal and BMP strings: Java reads all of them as UTF-8.
_STRINGS: Final = frozenset({12, 19, 20, 22, 27, 28, 30})
_ESCAPED: Final = ',=+<>#;"\\'


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate in DER."""
    from cryptography import x509  # only listeners that ask for certificates need it

    return name_text(x509.load_der_x509_certificate(certificate).subject.public_bytes())


def name_text(encoded: bytes) -> str:
    """A name in DER as text."""
    (_, sequence), *_ = _items(encoded)
    parts = ["+".join(_attribute(pair) for _, pair in _items(rdn)) for _, rdn in _items(sequence)]
    return ",".join(reversed(parts))


def _attribute(pair: bytes) -> str:
    start = _first_size(pair)
    (_, oid), (tag, value) = _items(pair)
    dotted = _dotted(oid)
    keyword = _KEYWORDS.get(dotted)
    if keyword is None or tag not in _STRINGS:
        return f"{keyword or dotted}=#{pair[start:].hex()}"
    return f"{keyword}={_escape(value.decode('utf-8', 'replace'))}"


def _escape(text: str) -> str:
    kept = text.strip(" ")
    before = len(text) - len(text.lstrip(" ")) if kept else 0
    after = len(text) - before - len(kept)
    escaped = "".join(
        "\\00" if char == "\0" else f"\\{char}" if char in _ESCAPED else char for char in kept
    )
    return "\\ " * before + escaped + "\\ " * after


def _items(encoded: bytes) -> Iterator[tuple[int, bytes]]:
    """The tag and content of each item that follow each other in DER."""
    position = 0
    while position < len(encoded):
        start, size = _header(encoded, position)
        yield encoded[position], encoded[start : start + size]
        position = start + size


def _first_size(encoded: bytes) -> int:
    start, size = _header(encoded, 0)
    return start + size


def _header(encoded: bytes, position: int) -> tuple[int, int]:
    """Where the content of the item begins, and its size."""
    size = encoded[position + 1]
    if size < 0x80:
        return position + 2, size
    end = position + 2 + (size & 0x7F)
    return end, int.from_bytes(encoded[position + 2 : end], "big")


def _dotted(oid: bytes) -> str:
    numbers, number = [], 0
    for byte in oid:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
