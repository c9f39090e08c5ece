"""The options of a write: topic, delivery guarantee and producer properties."""

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar

from barnabas.spark.source.source_options import SourceOptions
from barnabas.spark.user_errors import WrongOption
from barnabas.wire.records.compression import Codec

_PREFIX: Final = "kafka."
_ACKS: Final = {
    "all": -1,
    "-1": -1,
    "1": 1,
    "0": 1,
}  # with acks=0 the sink still waits for the leader
_CODECS: Final = {codec.name.lower(): codec for codec in Codec}
_BATCH_BYTES: Final = 256 * 1024
_MOST_BATCH_BYTES: Final = 900 * 1024  # a topic's max.message.bytes is a little more than 1 MiB

Value = TypeVar("Value")


class SinkOptions(NamedTuple):
    """The validated options of one write; `connection` holds those of every connection."""

    topic: str | None
    exactly_once: bool
    connection: SourceOptions
    acks: int
    codec: Codec
    batch_bytes: int

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "SinkOptions":
        """Names are case-insensitive. Raises WrongOption for the first invalid option."""
        given = {name.lower(): value for name, value in options.items()}
        kafka = {name: value for name, value in given.items() if name.startswith(_PREFIX)}
        for name in ("key.serializer", "value.serializer"):
            if _PREFIX + name in kafka:
                raise WrongOption(
                    f"option kafka.{name} is not supported: cast the columns key and value to"
                    " string or binary instead"
                )
        connection = SourceOptions.of({**kafka, "subscribe": "any"}, streaming=False)
        batch_bytes = connection.property_number("batch.size", _BATCH_BYTES)
        return cls(
            topic=given.get("topic"),
            exactly_once=_one_of("exactlyOnce", given, {"true": True, "false": False}, "false"),
            connection=connection,
            acks=_one_of("kafka.acks", given, _ACKS, "all"),
            codec=_one_of("kafka.compression.type", given, _CODECS, "none"),
            batch_bytes=min(max(batch_bytes, _BATCH_BYTES), _MOST_BATCH_BYTES),
        )


def _one_of(
    name: str, given: Mapping[str, str], values: Mapping[str, Value], default: str
) -> Value:
    text = given.get(name.lower(), default).strip().lower()
    if text not in values:
        raise WrongOption(f"option {name} is {text!r} but must be one of {', '.join(values)}")
    return values[text]
