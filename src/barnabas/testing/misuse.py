"""What a test asked of its cluster that cannot be, told in one sentence; and names looked up."""

from collections.abc import Mapping

from barnabas.base.errors import BarnabasError, ErrorCode
from barnabas.config.config_key import did_you_mean
from barnabas.wire.apis import APIS, UNADVERTISED, ApiKey

# What only brokers ask of each other: there is no client whose request could be met.
_BETWEEN_BROKERS = (
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.ALTER_PARTITION,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    *UNADVERTISED,
)


class Misuse(BarnabasError):
    """The test asks for what cannot be; nothing was changed."""


class NotInTime(BarnabasError, TimeoutError):
    """What a test waited for did not come; the message says how things stood at the end."""


def find_api(name: str | ApiKey) -> ApiKey:
    """The API by Kafka's name ("ListOffsets"), however its words are joined.

    Raises  Misuse, if clients have no such API here
    """
    if isinstance(name, ApiKey):
        name = name.name
    known = {_plain(key.name): key for key in APIS}
    shown = {_shown(key): key for key in APIS if key not in _BETWEEN_BROKERS}
    key = known.get(_plain(name))
    if key is None:
        raise Misuse(f"{name} is no API that is served here{did_you_mean(name, shown)}")
    if key in _BETWEEN_BROKERS:
        raise Misuse(f"{_shown(key)} is what brokers ask each other; only clients' requests fail")
    return key


def find_error(name: str | int | ErrorCode) -> ErrorCode:
    """Kafka's error by its name ("NOT_LEADER_OR_FOLLOWER") or number.

    Raises  Misuse, if there is no such error, or it is none
    """
    known = {_plain(code.name): code for code in ErrorCode}
    if isinstance(name, str):
        code = known.get(_plain(name))
    else:
        code = next((each for each in ErrorCode if each.value == int(name)), None)
    if code is None:
        names = [each.name.upper() for each in ErrorCode]
        raise Misuse(f"{name} is no error of Kafka's{did_you_mean(str(name).upper(), names)}")
    if code is ErrorCode.none:
        raise Misuse("NONE is no error: a request that succeeds needs no order")
    return code


def check_topic(topic: str, partition: int, partitions: Mapping[str, int]) -> None:
    """Raises Misuse, if there is no such partition."""
    if topic not in partitions:
        raise Misuse(f"there is no topic {topic}{did_you_mean(topic, partitions)}")
    if not 0 <= partition < partitions[topic]:
        last = partitions[topic] - 1
        raise Misuse(f"topic {topic} has no partition {partition}, only 0 to {last}")


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _shown(key: ApiKey) -> str:
    return key.name.replace("_", " ").title().replace(" ", "")
