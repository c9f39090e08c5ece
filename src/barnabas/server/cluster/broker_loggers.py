"""The loggers of a broker and their levels, as the resource BROKER_LOGGER of the config APIs.

Levels have Kafka's names: FATAL is Python's CRITICAL, TRACE is like DEBUG. A change lasts until the
process ends, and concerns all brokers in it.
"""

import logging
from collections.abc import Sequence
from typing import Final, Protocol

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.config.config_key import ConfigEntry, ConfigSource, ConfigType

ROOT: Final = "root"
_SET, _DELETE = 0, 1
_OPERATIONS: Final = {2: "APPEND", 3: "SUBTRACT"}
_LEVELS: Final = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": logging.DEBUG,
    "WARN": logging.WARNING,
}
_NAMES: Final = {number: name for name, number in _LEVELS.items() if name != "TRACE"}

log = logging.getLogger("barnabas.configs")


class Change(Protocol):
    """One change in an IncrementalAlterConfigs request, with the number of its operation."""

    @property
    def name(self) -> str: ...

    @property
    def operation(self) -> int: ...

    @property
    def value(self) -> str | None: ...


def describe_loggers() -> list[ConfigEntry]:
    """All loggers that exist, with the levels in force, sorted by name."""
    return [_entry(name) for name in sorted(_names())]


def alter_loggers(changes: Sequence[Change], *, validate_only: bool) -> None:
    """Set and unset levels.

    Raises  BrokerError(invalid_request, invalid_config) with Kafka's message, nothing changed
    """
    known = _names()
    for change in changes:
        _check(change, known)
    if validate_only:
        return
    for change in changes:
        level = logging.NOTSET if change.value is None else _LEVELS.get(change.value, 0)
        if change.operation == _DELETE:
            level = logging.NOTSET
        _logger(change.name).setLevel(level)
        log.warning("level of a logger set logger=%s level=%s", change.name, _level(change.name))


def _names() -> set[str]:
    loggers = logging.Logger.manager.loggerDict
    return {ROOT} | {name for name, each in loggers.items() if isinstance(each, logging.Logger)}


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _level(name: str) -> str:
    number = _logger(name).getEffectiveLevel()
    return _NAMES.get(number) or next(
        (_NAMES[each] for each in sorted(_NAMES) if each >= number), "FATAL"
    )


def _entry(name: str) -> ConfigEntry:
    return ConfigEntry(
        name=name,
        value=_level(name),
        source=ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
        synonyms=(),
        type=ConfigType.UNKNOWN,
        read_only=False,
        sensitive=False,
        documentation=None,
    )


def _check(change: Change, known: set[str]) -> None:
    name, operation, value = change.name, change.operation, change.value
    if operation not in (_SET, _DELETE):
        what = _OPERATIONS.get(operation, f"Unknown operation type {operation}")
        suffix = " operation" if operation in _OPERATIONS else ""
        raise BrokerError(
            ErrorCode.invalid_request,
            f"{what}{suffix} is not allowed for the BROKER_LOGGER resource",
        )
    if name not in known:
        raise BrokerError(ErrorCode.invalid_config, f"Logger {name} does not exist!")
    if operation == _SET and value not in _LEVELS:
        raise BrokerError(
            ErrorCode.invalid_config,
            f"Cannot set the log level of {name} to {value} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(_LEVELS))}",
        )
    if operation == _DELETE and name == ROOT:
        raise BrokerError(
            ErrorCode.invalid_request, f"Removing the log level of the {ROOT} logger is not allowed"
        )
