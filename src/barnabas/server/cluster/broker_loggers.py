"""The loggers of a broker and their levels, as the resource BROKER_LOGGER of the config APIs.

Levels have Kafka's names: FATAL is Python's CRITICAL, TRACE is like DEBUG. A change lasts until the
process ends, and concerns all brokers in it.
"""

import logging
from collections.abc import Sequence
from typing import Final

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.config.config_key import ConfigEntry, ConfigSource, ConfigType
from barnabas.server.cluster.config_alterations import Alteration, Operation

ROOT: Final = "root"
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


def describe_loggers() -> list[ConfigEntry]:
    """All loggers that exist, with the levels in force, sorted by name."""
    return [_entry(name) for name in sorted(_names())]


def alter_loggers(alterations: Sequence[Alteration], *, validate_only: bool) -> None:
    """Set and unset levels.

    Raises  BrokerError(invalid_request, invalid_config) with Kafka's message, nothing changed
    """
    known = _names()
    for each in alterations:
        _check(each, known)
    if validate_only:
        return
    for name, operation, value in alterations:
        level = logging.NOTSET if operation is Operation.DELETE else _LEVELS[value or ""]
        _logger(name).setLevel(level)
        log.warning("level of a logger set logger=%s level=%s", name, _level(name))


def _names() -> set[str]:
    # A copy: another thread may make a logger meanwhile.
    loggers = logging.Logger.manager.loggerDict.copy()
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


def _check(alteration: Alteration, known: set[str]) -> None:
    name, operation, value = alteration
    if operation not in (Operation.SET, Operation.DELETE):
        raise BrokerError(
            ErrorCode.invalid_request,
            f"{operation.name} operation is not allowed for the BROKER_LOGGER resource",
        )
    if name not in known:
        raise BrokerError(ErrorCode.invalid_config, f"Logger {name} does not exist!")
    if operation is Operation.DELETE:
        if name == ROOT:
            what = f"Removing the log level of the {ROOT} logger is not allowed"
            raise BrokerError(ErrorCode.invalid_request, what)
    elif value not in _LEVELS:
        raise BrokerError(
            ErrorCode.invalid_config,
            f"Cannot set the log level of {name} to {value} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(_LEVELS))}",
        )
