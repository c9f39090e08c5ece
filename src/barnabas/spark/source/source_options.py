"""The options of a read: those of Spark's Kafka source and our own, validated.

Names are case-insensitive, as in Spark. Options that Spark's source rejects are rejected here too;
options that it ignores are ignored, unless they look like a misspelt option.
"""

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from barnabas.base.ids import TopicPartition as TopicPartition
from barnabas.spark.source.value_decoder import ValueOptions
from barnabas.spark.user_errors import WrongOption

EARLIEST: Final = -2
LATEST: Final = -1

_PREFIX: Final = "kafka."
_STRATEGIES: Final = ("subscribe", "subscribePattern", "assign")
_OFFSETS: Final = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMES: Final = '{"topicA":{"0":1700000000000,"1":1700000000000}}'
_KNOWN: Final = (
    *_STRATEGIES,
    "kafka.bootstrap.servers",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "includeHeaders",
    "value.format",
    "value.schema",
    "value.errors",
    "value.subject",
    "schema.registry.url",
    "table",
    "groupId",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "partition.metadata.cache.ttl.ms",
)
_LOWER: Final = {name.lower(): name for name in _KNOWN}
_REFUSED: Final = {
    "auto.offset.reset": "set startingOffsets instead",
    "key.deserializer": "keys are binary; cast the column key instead",
    "value.deserializer": "values are binary; cast the column value instead",
    "enable.auto.commit": "Spark keeps the offsets; set groupId to commit them too",
    "interceptor.classes": "change records with DataFrame operations instead",
}
_ADDRESS: Final = re.compile(r"(?:\w+://)?(?:\[([0-9a-fA-F:]+)\]|([^\s:/]+)):(\d+)")
_DURATION: Final = re.compile(r"(-?\d+)\s*(us|ms|s|m|min|h|d)?")
_MS: Final = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000}
_DAY_MS: Final = 86_400_000
_DEFAULT_TRIGGER_DELAY_MS: Final = 15 * 60_000


@dataclass(frozen=True, slots=True)
class Bound:
    """The start or the end of a read: one for all partitions, or one for each.

    A number is an offset, EARLIEST or LATEST. With `by_time` it is a timestamp in milliseconds and
    means the first record at or after it.
    """

    name: str
    everywhere: int | None = None
    each: Mapping[TopicPartition, int] | None = None
    by_time: bool = False


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The validated options of one read; `kafka` holds the client properties without prefix."""

    bootstrap: tuple[tuple[str, int], ...]
    kafka: Mapping[str, str] = field(repr=False)  # may hold passwords
    subscribe: tuple[str, ...] | None
    subscribe_pattern: str | None
    assign: tuple[TopicPartition, ...] | None
    starting: Bound
    ending: Bound
    latest_if_no_match: bool
    fail_on_data_loss: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    include_headers: bool
    group_id: str | None
    values: ValueOptions | None

    @classmethod
    def of(cls, options: Mapping[str, str], *, streaming: bool) -> "SourceOptions":
        """Raises  WrongOption for the first invalid option"""
        given = _Given(options)
        given.check_names()
        subscribe, pattern, assign = given.topics()
        default = Bound("startingOffsets", LATEST if streaming else EARLIEST)
        starting, ending = given.bound("starting", default), given.ending(streaming)
        if not streaming:
            _check_batch(starting, ending)
        parsed = cls(
            bootstrap=given.bootstrap(),
            kafka=given.kafka,
            subscribe=subscribe,
            subscribe_pattern=pattern,
            assign=assign,
            starting=starting,
            ending=ending,
            latest_if_no_match=given.strategy() == "latest",
            fail_on_data_loss=given.boolean("failOnDataLoss", default=True),
            min_partitions=given.positive("minPartitions"),
            max_records_per_partition=given.positive("maxRecordsPerPartition"),
            max_offsets_per_trigger=given.positive("maxOffsetsPerTrigger"),
            min_offsets_per_trigger=given.positive("minOffsetsPerTrigger"),
            max_trigger_delay_ms=given.duration_ms("maxTriggerDelay", _DEFAULT_TRIGGER_DELAY_MS),
            include_headers=given.boolean("includeHeaders", default=False),
            group_id=given.get("groupId") or given.kafka.get("group.id") or None,
            values=ValueOptions.of(options),
        )
        if parsed.is_secured:
            from barnabas.spark.broker_connection import security_of  # most clusters need none

            security_of(parsed)
        return parsed

    @property
    def is_secured(self) -> bool:
        """True if connections use TLS or SASL."""
        return self.kafka.get("security.protocol", "PLAINTEXT").strip().upper() != "PLAINTEXT"

    @property
    def read_committed(self) -> bool:
        return self.kafka.get("isolation.level", "").strip().lower() == "read_committed"

    def property_number(self, name: str, default: int) -> int:
        """A client property that is a positive number. Raises WrongOption."""
        text = self.kafka.get(name, str(default)).strip()
        if not text.isdecimal() or not int(text):
            _wrong(_PREFIX + name, text, "a number of at least 1")
        return int(text)


def include_headers(options: Mapping[str, str]) -> bool:
    """True if the read has a column headers. Raises WrongOption."""
    return _Given(options).boolean("includeHeaders", default=False)


class _Given:
    """The options of the user, parsed one by one."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        self.kafka = {
            name.removeprefix(_PREFIX): value
            for name, value in self._values.items()
            if name.startswith(_PREFIX)
        }

    def get(self, name: str) -> str | None:
        value = self._values.get(name.lower())
        return None if value is None else value.strip()

    def check_names(self) -> None:
        for name in self.kafka:
            if name in _REFUSED:
                raise WrongOption(f"option kafka.{name} is not supported: {_REFUSED[name]}")
        for name in self._values:
            if name in _LOWER or name.startswith(_PREFIX):
                continue
            for likely in difflib.get_close_matches(name, _LOWER, n=1, cutoff=0.85):
                raise WrongOption(f"unknown option {name}; did you mean {_LOWER[likely]}?")

    def bootstrap(self) -> tuple[tuple[str, int], ...]:
        text = self.get("kafka.bootstrap.servers")
        if not text:
            raise WrongOption(
                "option kafka.bootstrap.servers is missing; set it to HOST:PORT[,...]"
            )
        found = [_ADDRESS.fullmatch(each.strip()) for each in text.split(",")]
        addresses = tuple((each[1] or each[2], int(each[3])) for each in found if each)
        if len(addresses) < len(found) or any(not 0 < port < 65536 for _, port in addresses):
            _wrong("kafka.bootstrap.servers", text, "HOST:PORT[,...]")
        return addresses

    def topics(
        self,
    ) -> tuple[tuple[str, ...] | None, str | None, tuple[TopicPartition, ...] | None]:
        """Exactly one of: topic names, a pattern, partitions."""
        chosen = [name for name in _STRATEGIES if self.get(name) is not None]
        if not self._values:
            raise WrongOption(
                "there are no options: Spark does not pass the options of a table to a Python data"
                " source; use SELECT ... FROM table WITH (...), or create a TEMPORARY VIEW"
            )
        if not chosen:
            raise WrongOption(f"no topics are named: set one of {', '.join(_STRATEGIES)}")
        if len(chosen) > 1:
            raise WrongOption(f"options {', '.join(chosen)} exclude each other; set one of them")
        text = self.get(chosen[0]) or ""
        if chosen[0] == "assign":
            return None, None, self._assigned(text)
        if chosen[0] == "subscribePattern":
            try:
                if text and re.compile(text):
                    return None, text, None
            except re.error as failure:
                _wrong("subscribePattern", text, f"a regular expression: {failure}")
            _wrong("subscribePattern", text, "a regular expression for topic names")
        names = tuple(dict.fromkeys(name for name in map(str.strip, text.split(",")) if name))
        return names or _wrong("subscribe", text, "topic names separated by commas"), None, None

    def _assigned(self, text: str) -> tuple[TopicPartition, ...]:
        parsed = _json(text)
        try:
            found = [
                TopicPartition(topic, _whole(partition))
                for topic, partitions in parsed.items()
                for partition in partitions
            ]
        except (AttributeError, TypeError, ValueError):
            found = []
        return tuple(dict.fromkeys(found)) or _wrong(
            "assign", text, 'like {"topicA":[0,1],"topicB":[2,4]}'
        )

    def ending(self, streaming: bool) -> Bound:
        if streaming:
            for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
                if self.get(name) is not None:
                    raise WrongOption(
                        f"option {name} is not supported in a streaming query; use the trigger"
                        " availableNow=True to stop at the current end"
                    )
        return self.bound("ending", Bound("endingOffsets", LATEST))

    def bound(self, which: str, default: Bound) -> Bound:
        """As in Spark, one timestamp for all wins over timestamps, and these over offsets."""
        name = f"{which}Timestamp"
        if self.get(name) is not None:
            return Bound(name, self._number(name, 0), by_time=True)
        name = f"{which}OffsetsByTimestamp"
        if (text := self.get(name)) is not None:
            return Bound(name, each=_each(name, text, 0, f"like {_TIMES}"), by_time=True)
        name = f"{which}Offsets"
        if (text := self.get(name)) is None:
            return default
        if text.lower() in ("earliest", "latest"):
            return Bound(name, EARLIEST if text.lower() == "earliest" else LATEST)
        return Bound(name, each=_each(name, text, EARLIEST, f"earliest, latest or {_OFFSETS}"))

    def strategy(self) -> str:
        name = "startingOffsetsByTimestampStrategy"
        text = (self.get(name) or "error").lower()
        return text if text in ("error", "latest") else _wrong(name, text, "error or latest")

    def boolean(self, name: str, *, default: bool) -> bool:
        text = self.get(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            _wrong(name, text, "true or false")
        return text.lower() == "true"

    def positive(self, name: str) -> int | None:
        return None if self.get(name) is None else self._number(name, 1)

    def _number(self, name: str, least: int) -> int:
        text = self.get(name) or ""
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        return number if number >= least else _wrong(name, text, f"a number of at least {least}")

    def duration_ms(self, name: str, default: int) -> int:
        text = self.get(name)
        if text is None:
            return default
        match = _DURATION.fullmatch(text.lower())
        if match is None:
            _wrong(name, text, "a duration like 500ms, 30s or 15m")
        return int(int(match[1]) * (_DAY_MS if match[2] == "d" else _MS[match[2] or "ms"]))


def _check_batch(starting: Bound, ending: Bound) -> None:
    for bound, refused, word in ((starting, LATEST, "latest"), (ending, EARLIEST, "earliest")):
        if bound.by_time:
            continue
        if bound.everywhere == refused or refused in (bound.each or {}).values():
            raise WrongOption(f"option {bound.name} cannot be {word} in a batch read")
    if starting.each and ending.each and starting.by_time == ending.by_time:
        for partition in sorted(starting.each.keys() ^ ending.each.keys()):
            raise WrongOption(
                f"{starting.name} and {ending.name} must name the same partitions;"
                f" only one of them names {partition}"
            )
        for partition, start in starting.each.items():
            if start > ending.each[partition] >= 0:
                raise WrongOption(
                    f"{starting.name} of {partition} is {start}, which is after {ending.name},"
                    f" {ending.each[partition]}"
                )


def _each(name: str, text: str, least: int, allowed: str) -> dict[TopicPartition, int]:
    try:
        found = {
            TopicPartition(topic, int(partition)): _whole(number, least)
            for topic, numbers in _json(text).items()
            for partition, number in numbers.items()
        }
    except (AttributeError, TypeError, ValueError):
        found = {}
    return found or _wrong(name, text, allowed)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _whole(number: object, least: int = 0) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise ValueError(number)
    return number


def _wrong(name: str, value: str, allowed: str) -> NoReturn:
    raise WrongOption(f"option {name} is {value!r} but must be {allowed}")
