"""Format strings have kcat's meaning, and print the bytes of a message unchanged."""

import json
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.exit_codes import Misused
from barnabas.cli.io.message_formats import (
    Headers,
    compile_fields,
    compile_format,
    json_envelope,
    unescape,
)


@dataclass
class Sample:
    a_key: bytes | None = b"key"
    a_value: bytes | None = b"value"
    some_headers: Headers = field(default_factory=list)
    a_timestamp: tuple[int, int] = (1, 1700000000000)

    def topic(self) -> str:
        return "orders"

    def partition(self) -> int:
        return 2

    def offset(self) -> int:
        return 41

    def timestamp(self) -> tuple[int, int]:
        return self.a_timestamp

    def key(self) -> bytes | None:
        return self.a_key

    def value(self) -> bytes | None:
        return self.a_value

    def headers(self) -> Headers | None:
        return self.some_headers or None


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r"\n\r\t", b"\n\r\t"),
        (r"\x41\x7\xff", b"A\x07\xff"),
        (r"\0|\10|\012", b"\0|\x0a|\x0a"),
        (r"\\n \q", b"\\n q"),
        ("ü;", "ü;".encode()),
    ],
)
def test_escapes_stand_for_bytes(written: str, meant: bytes) -> None:
    assert unescape(written) == meant


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("%t [%p] %o\\n", b"orders [2] 41\n"),
        ("%k=%s;%K,%S", b"key=value;3,5"),
        ("%R%s", b"\0\0\0\x05value"),
        ("%T %h", b"1700000000000 a=1,b=NULL,c="),
        ("100%%", b"100%"),
        ("", b""),
    ],
)
def test_formatters_print_their_field(text: str, printed: bytes) -> None:
    sample = Sample(some_headers=[("a", b"1"), ("b", None), ("c", b"")])
    assert compile_format(text)(sample) == printed


def test_a_null_key_or_value_has_length_minus_one() -> None:
    empty = Sample(a_key=None, a_value=None)
    assert compile_format("%k|%s|%K|%S|%R")(empty) == b"||-1|-1|\xff\xff\xff\xff"
    assert compile_format("%k|%s", b"NULL")(empty) == b"NULL|NULL"


@pytest.mark.parametrize("text", ["%q", "abc %", "%"])
def test_an_unknown_formatter_is_rejected(text: str) -> None:
    with pytest.raises(Misused, match="unknown formatter"):
        compile_format(text)


@given(key=st.binary(), value=st.binary())
def test_keys_and_values_are_printed_byte_by_byte(key: bytes, value: bytes) -> None:
    sample = Sample(key, value)
    assert compile_format("%k%%%s")(sample) == key + b"%" + value
    assert compile_fields(["key"], b"\t", b"\n", b"")(sample) == key + b"\t" + value + b"\n"


def test_fields_are_printed_in_the_given_order() -> None:
    print_all = compile_fields(["offset", "headers", "timestamp"], b"|", b"\n", b"")
    assert print_all(Sample(some_headers=[("h", b"1")])) == b"41|h=1|1700000000000|value\n"
    with pytest.raises(Misused, match="unknown field; expected topic"):
        compile_fields(["colour"], b"|", b"\n", b"")


def test_the_json_envelope_is_kcats() -> None:
    sample = Sample(some_headers=[("a", b"1"), ("b", None)])
    assert json.loads(json_envelope(sample)) == {
        "topic": "orders",
        "partition": 2,
        "offset": 41,
        "tstype": "create",
        "ts": 1700000000000,
        "headers": ["a", "1", "b", None],
        "key": "key",
        "payload": "value",
    }


def test_binary_data_in_the_json_envelope_is_marked_as_base64() -> None:
    envelope = json.loads(json_envelope(Sample(None, b"\xff\x00")))
    assert (envelope["key"], envelope["payload"]) == (None, "/wA=")
    assert envelope["payload_encoding"] == "base64"


@given(value=st.text())
def test_text_survives_the_json_envelope(value: str) -> None:
    line = json_envelope(Sample(a_value=value.encode("utf-8", "surrogatepass")))
    assert line.endswith(b"\n")
    assert b"\n" not in line[:-1]
    json.loads(line)
