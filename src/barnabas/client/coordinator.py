"""The coordinator of a group: look-up, and requests that follow it when it moves."""

from collections.abc import Callable
from typing import Any, Final

from barnabas.base.errors import BarnabasError, ErrorCode
from barnabas.client.metadata import Metadata, fields
from barnabas.client.retries import (
    STALE_COORDINATOR,
    Address,
    Ask,
    RetriableError,
    Retry,
    Steps,
    error_words,
    retried,
)
from barnabas.wire.apis import ApiKey

GROUP: Final = 0


class CoordinatorRefused(BarnabasError):
    """The group has no coordinator, and will not get one by itself."""


def find_coordinator(metadata: Metadata, group: str) -> Steps[Address]:
    """Raises  RetriableError, if there is no coordinator yet; NoBrokerReached"""
    request = fields(key_type=GROUP, coordinator_keys=(group,))
    response = yield from metadata.ask_any(ApiKey.FIND_COORDINATOR, request)
    (found,) = response.coordinators
    if found.error_code is not ErrorCode.none:
        why = f"group {group}: {error_words(found.error_code)}"
        retriable = found.error_code in STALE_COORDINATOR
        raise RetriableError(why) if retriable else CoordinatorRefused(why)
    return found.host, found.port


def first_error(response: Any) -> ErrorCode:
    """The error of a response as a whole."""
    code: ErrorCode = getattr(response, "error_code", ErrorCode.none)
    return code


def ask_coordinator(
    metadata: Metadata,
    group: str,
    key: ApiKey,
    message: Any,
    retry: Retry,
    error_of: Callable[[Any], ErrorCode] = first_error,
    fatal: tuple[type[BaseException], ...] = (),
) -> Steps[Any]:
    """The response of the group's coordinator; one that moves or loads is asked again.

    Raises  PeerGone or RetriableError, after the last attempt; at once, if it is among `fatal`
            CoordinatorRefused, at once
    """

    def attempt() -> Steps[Any]:
        address = yield from find_coordinator(metadata, group)
        response = yield Ask(address, key, message)
        code = error_of(response)
        if code in STALE_COORDINATOR:
            raise RetriableError(f"group {group}: {error_words(code)}")
        return response

    return retried(attempt, retry, fatal)
