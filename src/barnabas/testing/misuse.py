"""Errors of a test that uses its cluster wrongly, and the look-up of API and error names."""

from collections.abc import Mapping

from barnabas.base.errors import BarnabasError, ErrorCode
from barnabas.config.config_key import did_you_mean
from barnabas.wire.apis import APIS, UNADVERTISED, ApiKey

# Requests that only brokers send; faults are for the requests of clients.
_BETWEEN_BROKERS = (
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.ALTER_PARTITION,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.WRITE_TXN_MARKERS,
    *UNADVERTISED,
)


class Misuse(BarnabasError):
    """The test uses the cluster wrongly; nothing was changed."""


class NotInTime(BarnabasError, TimeoutError):
    """A wait timed out; the message has the last state."""


def find_api(name: str | ApiKey) -> ApiKey:
    """The API of Kafka's name ("ListOffsets"); case and underscores do not matter.

    Raises  Misuse for an API that clients cannot use
    """
    if isinstance(name, ApiKey):
        name = name.name
    known = {_plain(key.name): key for key in APIS}
    shown = {_shown(key): key for key in APIS if key not in _BETWEEN_BROKERS}
    key = known.get(_plain(name))
    if key is None:
        raise Misuse(f"unknown API {name}{did_you_mean(name, shown)}")
    if key in _BETWEEN_BROKERS:
        raise Misuse(f"only brokers send {_shown(key)}; faults are for requests of clients")
    return key


def find_error(name: str | int | ErrorCode) -> ErrorCode:
    """Kafka's error of this name ("NOT_LEADER_OR_FOLLOWER") or number.

    Raises  Misuse for an unknown error, and for NONE
    """
    known = {_plain(code.name): code for code in ErrorCode}
    if isinstance(name, str):
        code = known.get(_plain(name))
    else:
        code = next((each for each in ErrorCode if each.value == int(name)), None)
    if code is None:
        names = [each.name.upper() for each in ErrorCode]
        raise Misuse(f"unknown error {name}{did_you_mean(str(name).upper(), names)}")
    if code is ErrorCode.none:
        raise Misuse("NONE is not an error")
    return code


def check_topic(topic: str, partition: int, partitions: Mapping[str, int]) -> None:
    """Raises Misuse for an unknown topic or partition."""
    if topic not in partitions:
        raise Misuse(f"unknown topic {topic}{did_you_mean(topic, partitions)}")
    if not 0 <= partition < partitions[topic]:
        last = partitions[topic] - 1
        raise Misuse(f"topic {topic} has no partition {partition}, only 0 to {last}")


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _shown(key: ApiKey) -> str:
    return key.name.replace("_", " ").title().replace(" ", "")
