"""Messages as filters, downloads and pages get them: huge, broken and strange ones, too."""

import json
import struct
from typing import Any

import pytest

from barnabas.console.messages.filter_language import WrongFilter, compile_filter
from barnabas.console.messages.message_view import (
    for_download,
    for_filter,
    show_data,
    show_message,
)
from barnabas.console.messages.record_reader import ReadMessage, ReadPlan
from barnabas.console.messages.schema_registry import SchemaRegistry, UnknownSchema
from barnabas.console.web.page import server_sent
from barnabas.wire.records.batch import read_header
from barnabas.wire.records.records import Record, build_batch

NOBODY = "http://127.0.0.1:1"


def message(value: bytes | None, key: bytes | None = b"k") -> ReadMessage:
    record = Record(7, 1_700_000_000_000, key, value, (("source", b"\xffweb"),))
    return ReadMessage(1, record, read_header(build_batch([record])))


@pytest.mark.parametrize(
    "value",
    [
        b"[" * 200_000,
        b'{"a":' * 50_000,
        b'{"half": "\\ud800"}',
        b"[" + b"9" * 5_000 + b"]",
        b"\x00\x00\x00\x00\x01" + b"[" * 100,
        b"\x00",
        b"",
    ],
    ids=["deep list", "deep object", "half a surrogate", "long number", "frame", "zero", "empty"],
)
def test_a_strange_value_is_shown_filtered_and_downloaded(value: bytes) -> None:
    strange, registry = message(value), SchemaRegistry(NOBODY)
    for wanted in ("auto", "json", "text", "hex"):
        assert show_message(strange, wanted, registry).value.text.encode() is not None
    json.dumps(for_download(strange, registry), ensure_ascii=False).encode()
    fields = for_filter(strange, registry)
    for kind, text in (("expression", "value.a == 1"), ("path", "$.a = 1"), ("value", "zz")):
        assert not compile_filter(kind, text)(fields)


def test_filters_and_downloads_get_the_whole_value_as_it_was_sent() -> None:
    value = b'{"pad":"' + b"x" * 50_000 + b'","id":5,"price":1.10}'
    long = message(value)
    shown = show_message(long, "auto", None)
    assert (shown.value.is_cut, len(shown.value.text) < 21_000) == (True, True)
    assert for_download(long, None)["value"] == value.decode()
    fields = for_filter(long, None)
    assert compile_filter("value", '"id":5')(fields)
    assert compile_filter("expression", "value.id == 5")(fields)
    assert compile_filter("path", "$.id = 5")(fields)


def test_bytes_are_downloaded_in_hex_and_found_by_the_text_in_them() -> None:
    binary = message(b"\xff\x00order-7\xfe", key=None)
    fields = for_download(binary, None)
    assert (fields["value"], fields["value_encoding"]) == (b"\xff\x00order-7\xfe".hex(), "hex")
    assert (fields["key"], fields["key_encoding"]) == (None, "null")
    assert compile_filter("value", "order-7")(for_filter(binary, None))
    assert not compile_filter("key", "none")(for_filter(binary, None))


def test_headers_of_one_name_are_all_downloaded() -> None:
    headers = (("trace", b"a"), ("trace", b"b"), ("raw", b"\xff\x00"), ("none", None))
    record = Record(7, 1_700_000_000_000, b"k", b"v", headers)
    found = for_download(ReadMessage(1, record, read_header(build_batch([record]))), None)
    assert [tuple(each.values()) for each in found["headers"]] == [
        ("trace", "a", "text"),
        ("trace", "b", "text"),
        ("raw", "ff00", "hex"),
        ("none", None, "null"),
    ]


def test_a_value_of_ten_megabytes_is_cut_and_not_parsed() -> None:
    value = b'{"rows": [' + b",".join([b'{"a": 1}'] * 1_100_000) + b"]}"
    shown = show_data(value, "auto", None)
    assert (shown.kind, shown.is_cut, shown.size) == ("text", True, len(value))


@pytest.mark.parametrize("text", ["len", "len == 3", 'matches(value, "(")', "value[1:2]"])
def test_an_expression_that_cannot_be_meant_is_refused_before_it_runs(text: str) -> None:
    with pytest.raises(WrongFilter):
        compile_filter("expression", text)


def test_a_pattern_of_a_message_that_is_none_keeps_nothing() -> None:
    fields: dict[str, Any] = {"key": "(", "value": "a", "headers": {}}
    assert not compile_filter("expression", "matches(value, key)")(fields)


def test_the_newest_are_read_in_parts_from_the_end() -> None:
    plan = ReadPlan("orders", {0: 0, 1: 90}, {0: 1_000, 1: 100})
    parts = list(plan.windows(50, is_filtered=False))
    assert [part.starts for part in parts] == [
        {0: 950, 1: 90},
        {0: 750, 1: 90},
        {0: 0, 1: 90},
    ]
    assert [part.ends for part in parts[1:]] == [part.starts for part in parts[:-1]]
    many = ReadPlan("orders", dict.fromkeys(range(1_000), 0), dict.fromkeys(range(1_000), 99))
    assert sum(99 - at for at in next(many.windows(50, is_filtered=True)).starts.values()) == 20_000


def test_a_schema_that_is_missing_is_not_asked_for_with_every_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Hours:
        hours = 0

        def now_ms(self) -> int:
            return self.hours * 3_600_000

    asked: list[str] = []

    def refused(url: str, timeout: float) -> Any:
        asked.append(url)
        raise OSError("refused")

    monkeypatch.setattr("urllib.request.urlopen", refused)
    clock = Hours()
    registry = SchemaRegistry(NOBODY, clock)
    for schema_id in range(100):
        with pytest.raises(UnknownSchema):
            registry.decode(struct.pack(">bI", 0, schema_id) + b"x")
    assert len(asked) == 1
    clock.hours += 1
    with pytest.raises(UnknownSchema):
        registry.decode(struct.pack(">bI", 0, 1) + b"x")
    assert len(asked) == 2


def test_an_event_keeps_every_character_but_line_ends() -> None:
    text = "a\u2028b\x85c\x0bd\re\nf"
    assert (
        server_sent("live", text) == "event: live\ndata: a\u2028b\x85c\x0bd\ndata: e\ndata: f\n\n"
    )
