"""The topics of the golden files, and their configs."""

from collections.abc import Mapping
from typing import Final

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
INDEX_BYTES: Final = 1024  # small, as a killed broker leaves preallocated indexes

_SMALL_SEGMENTS: Final = {
    "segment.bytes": "2000",
    "index.interval.bytes": "200",
    "file.delete.delay.ms": "1",
}
_COMPACTED: Final = {
    **_SMALL_SEGMENTS,
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
}
TOPICS: Final[Mapping[str, Mapping[str, str]]] = {
    "produced": {},
    **{f"recompressed-{codec}": {"compression.type": codec} for codec in CODECS[1:]},
    "segments": _SMALL_SEGMENTS,
    "append-time": {"message.timestamp.type": "LogAppendTime", "index.interval.bytes": "100"},
    "idempotent": _SMALL_SEGMENTS,
    "transactions": _SMALL_SEGMENTS,
    "compacted": {**_COMPACTED, "delete.retention.ms": "86400000"},
    "compacted-twice": {**_COMPACTED, "delete.retention.ms": "1"},
    "deleted": _SMALL_SEGMENTS,
    "preallocated": {"preallocate": "true", "segment.bytes": "8192"},
    "empty": {},
}
