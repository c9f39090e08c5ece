"""Levels of a broker's loggers, described and altered as the resource BROKER_LOGGER."""

import logging
from collections.abc import Iterator

import pytest

from barnabas.base.errors import ErrorCode
from tests.server.admin.client import Client
from tests.server.admin.test_alter_configs import (
    APPEND,
    DELETE,
    SET,
    alter,
    incremental,
    replace,
    resource,
)
from tests.server.admin.test_describe_configs import by_name, describe

BROKER_LOGGER = 8
NAME = "barnabas.tests.levels"


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """A logger of its own: levels are those of the whole process."""
    logger = logging.getLogger(NAME)
    yield logger
    logger.setLevel(logging.NOTSET)


def level(client: Client, name: str = NAME) -> str:
    found: str = by_name(describe(client, BROKER_LOGGER, "0", [name]))[name].value
    return found


def test_every_logger_has_a_level(client: Client, logger: logging.Logger) -> None:
    described = by_name(describe(client, BROKER_LOGGER, "0"))
    assert {"root", "barnabas.configs", NAME} <= described.keys()
    logger.setLevel(logging.ERROR)
    found = by_name(describe(client, BROKER_LOGGER, "0"))[NAME]
    assert (found.value, found.config_source, found.read_only) == ("ERROR", 6, False)
    assert found.synonyms == ()


@pytest.mark.parametrize(
    ("name", "number"),
    [("TRACE", 10), ("DEBUG", 10), ("INFO", 20), ("WARN", 30), ("ERROR", 40), ("FATAL", 50)],
)
def test_a_level_is_set_and_unset(
    client: Client, logger: logging.Logger, name: str, number: int
) -> None:
    inherited = level(client)
    assert alter(client, BROKER_LOGGER, "0", (NAME, SET, name)).error_code == ErrorCode.none
    assert logger.level == number
    assert level(client) == ("DEBUG" if name == "TRACE" else name)
    assert alter(client, BROKER_LOGGER, "0", (NAME, DELETE, None)).error_code == ErrorCode.none
    assert (logger.level, level(client)) == (logging.NOTSET, inherited)


def test_nothing_changes_when_only_validating(client: Client, logger: logging.Logger) -> None:
    wanted = resource(BROKER_LOGGER, "0", (NAME, SET, "DEBUG"))
    (result,) = incremental(client, wanted, validate_only=True)
    assert (result.error_code, logger.level) == (ErrorCode.none, logging.NOTSET)


@pytest.mark.parametrize(
    ("broker_id", "op", "code", "why"),
    [
        (
            "0",
            (NAME, APPEND, "DEBUG"),
            ErrorCode.invalid_request,
            "APPEND operation is not allowed",
        ),
        ("0", (NAME, SET, "LOUD"), ErrorCode.invalid_config, "not a supported log level"),
        ("0", ("no.such", SET, "INFO"), ErrorCode.invalid_config, "Logger no.such does not exist!"),
        (
            "0",
            ("root", DELETE, None),
            ErrorCode.invalid_request,
            "Removing the log level of the root",
        ),
        ("1", (NAME, SET, "INFO"), ErrorCode.invalid_request, "expected 0, but received 1"),
        ("x", (NAME, SET, "INFO"), ErrorCode.invalid_request, "must be an integer"),
    ],
)
def test_what_is_refused_changes_nothing(
    client: Client,
    logger: logging.Logger,
    broker_id: str,
    op: tuple[str, int, str | None],
    code: ErrorCode,
    why: str,
) -> None:
    before = () if op[0] == NAME else ((NAME, SET, "DEBUG"),)
    result = alter(client, BROKER_LOGGER, broker_id, *before, op)
    assert result.error_code == code
    assert why in result.error_message
    assert logger.level == logging.NOTSET


def test_a_description_is_of_one_broker(client: Client) -> None:
    assert describe(client, BROKER_LOGGER, "").error_message == "Broker id must not be empty"
    assert describe(client, BROKER_LOGGER, "7").error_code == ErrorCode.invalid_request


def test_alter_configs_cannot_replace_levels(client: Client) -> None:
    (result,) = replace(client, resource(BROKER_LOGGER, "0"))
    assert result.error_code == ErrorCode.invalid_request
    assert result.error_message == "Unknown resource type 8"
