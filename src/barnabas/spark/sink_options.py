"""What the user says about a write: the topic, how sure, and the properties of the producer."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from barnabas.spark.failures import WrongOption

_PREFIX: Final = "kafka."
_BOOTSTRAP: Final = "bootstrap.servers"
# Of Java's producer; librdkafka has another name for the same thing.
_RENAMED: Final = {
    "max.request.size": "message.max.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
}
# What Java's producer knows and librdkafka does without.
_WITHOUT_EFFECT: Final = frozenset(
    {"buffer.memory", "max.block.ms", "partitioner.class", "partitioner.ignore.keys", "retries"}
)
# Java's are murmur2 for keys, every replica in sync, and no duplicates by a retried request.
_DEFAULTS: Final[dict[str, str | bool]] = {
    "partitioner": "murmur2_random",
    "enable.idempotence": "true",
    "delivery.report.only.error": True,
    "queue.buffering.max.messages": "1000000",
    "queue.buffering.max.kbytes": "65536",
    "log_level": "0",
}


class SinkOptions(NamedTuple):
    """The options of one write, checked; `client` is for librdkafka."""

    topic: str | None
    exactly_once: bool
    client: dict[str, str | bool]

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "SinkOptions":
        """Names are compared without their case. Raises WrongOption for what cannot be meant."""
        given = {name.lower(): value for name, value in options.items()}
        client = dict(_DEFAULTS)
        for name, value in given.items():
            if name.startswith(_PREFIX):
                own = name.removeprefix(_PREFIX)
                _refuse(own)
                if own not in _WITHOUT_EFFECT:
                    client[_RENAMED.get(own, own)] = value
        if not given.get(_PREFIX + _BOOTSTRAP, "").strip():
            raise WrongOption(
                "option kafka.bootstrap.servers is missing: HOST:PORT[,...] of brokers"
            )
        return cls(given.get("topic"), _boolean("exactlyOnce", given), client)


def _refuse(name: str) -> None:
    if name in ("key.serializer", "value.serializer"):
        raise WrongOption(
            f"option kafka.{name} is not possible: cast the columns key and value to string or"
            " binary instead"
        )


def _boolean(name: str, given: Mapping[str, str]) -> bool:
    text = given.get(name.lower(), "false").strip().lower()
    if text not in ("true", "false"):
        raise WrongOption(f"option {name} is {text!r}, must be true or false")
    return text == "true"
