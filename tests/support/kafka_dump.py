"""The output of Kafka's DumpLogSegments, as data.

Keys and values are text: the tool replaces bytes that are not UTF-8.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.support.apache_kafka import ApacheKafka

DUMP_LOG_SEGMENTS: Final = "kafka.tools.DumpLogSegments"

_FIELD: Final = re.compile(r"(\w+): (\[[^\]]*\]|\S+)")
_CONTENT: Final = re.compile(r" (?:key: (?P<key>.*?))?(?: ?payload: (?P<payload>.*))?", re.DOTALL)
_SILENT: Final = re.compile(
    r"Log starting offset: .*|INFO .*|.* is empty\.|.* passed sanity check\.|"
)
_GAP: Final = re.compile(r"Non-consecutive offsets in .*|  \d+ is followed by \d+")
_ENTRY: Final = re.compile(r"(baseOffset|offset|timestamp|version|producerId): ")
_OPTIONAL: Final = re.compile(r"OptionalLong(?:\.empty|\[(\d+)\])")

Fields = dict[str, Any]


class Dumped(NamedTuple):
    """The entries of each file by its path, and the other lines: complaints."""

    entries: dict[str, list[Fields]]
    complaints: list[str]

    def gaps(self) -> list[str]:
        """The complaints about missing offsets, which compaction and transactions cause."""
        return [line for line in self.complaints if _GAP.fullmatch(line)]


def dump(kafka: ApacheKafka, files: Iterable[Path], *options: str) -> Dumped:
    """Run the tool over files of any kind; one JVM for all of them."""
    listed = ",".join(map(str, files))
    text = kafka.run(DUMP_LOG_SEGMENTS, "--files", listed, *options)
    return parse(text)


def parse(text: str) -> Dumped:
    """Batches have their records as `records`; numbers are ints."""
    dumped = Dumped({}, [])
    entries: list[Fields] = []
    for line in text.split("\n"):
        if line.startswith("Dumping "):
            entries = dumped.entries.setdefault(line.removeprefix("Dumping "), [])
        elif line.startswith("| "):
            entries[-1]["records"].append(_record(line[2:]))
        elif _ENTRY.match(line):
            entries.append(_entry(line))
        elif not _SILENT.fullmatch(line):
            dumped.complaints.append(line)
    return dumped


def _entry(line: str) -> Fields:
    fields = _fields(line)
    if "baseOffset" in fields:
        fields["records"] = []
    return fields


def _record(line: str) -> Fields:
    head, bracket, rest = line.partition("]")
    fields = _fields(head + bracket)
    keys = fields["headerKeys"].strip("[]")
    fields["headerKeys"] = keys.split(",") if keys else []
    if "endTxnMarker" in rest:
        return fields | _fields(rest)
    content = _CONTENT.fullmatch(rest or " ")
    assert content is not None, line
    return fields | content.groupdict()


def _fields(text: str) -> Fields:
    return {name: _value(value) for name, value in _FIELD.findall(text)}


def _value(text: str) -> Any:
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    if optional := _OPTIONAL.fullmatch(text):
        return int(optional[1]) if optional[1] else None
    return {"true": True, "false": False}.get(text, text)
