"""The coordinator of a group or a transactional id: look-up, and requests that follow it."""

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
TRANSACTION: Final = 1
_NOUNS: Final = {GROUP: "group", TRANSACTION: "transactional id"}


class CoordinatorRefused(BarnabasError):
    """There is no coordinator, and there will be none by itself."""


def find_coordinator(metadata: Metadata, name: str, kind: int = GROUP) -> Steps[Address]:
    """Raises  RetriableError, if there is no coordinator yet; NoBrokerReached"""
    request = fields(key_type=kind, coordinator_keys=(name,))
    response = yield from metadata.ask_any(ApiKey.FIND_COORDINATOR, request)
    (found,) = response.coordinators
    if found.error_code is not ErrorCode.none:
        why = f"{_NOUNS[kind]} {name}: {error_words(found.error_code)}"
        retriable = found.error_code in STALE_COORDINATOR
        raise RetriableError(why) if retriable else CoordinatorRefused(why)
    return found.host, found.port


def first_error(response: Any) -> ErrorCode:
    """The error of a response as a whole."""
    code: ErrorCode = getattr(response, "error_code", ErrorCode.none)
    return code


def ask_coordinator(
    metadata: Metadata,
    name: str,
    key: ApiKey,
    message: Any,
    retry: Retry,
    error_of: Callable[[Any], ErrorCode] = first_error,
    fatal: tuple[type[BaseException], ...] = (),
    kind: int = GROUP,
) -> Steps[Any]:
    """The response of the coordinator of a group or a transactional id.

    One that moves or loads is asked again.

    Raises  PeerGone or RetriableError, after the last attempt; at once, if it is among `fatal`
            CoordinatorRefused, at once
    """

    def attempt() -> Steps[Any]:
        address = yield from find_coordinator(metadata, name, kind)
        response = yield Ask(address, key, message)
        code = error_of(response)
        if code in STALE_COORDINATOR:
            raise RetriableError(f"{_NOUNS[kind]} {name}: {error_words(code)}")
        return response

    return retried(attempt, retry, fatal)
