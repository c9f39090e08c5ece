"""From frames to handlers: versions, headers, and what becomes of a handler that fails."""

import asyncio
import logging
import struct
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kio.schema.api_versions.v4.response import ApiVersionsResponse
from kio.schema.errors import ErrorCode

from barnabas.base.errors import BarnabasError, LawBroken
from barnabas.base.ids import BrokerId
from barnabas.server.cluster.features import Features
from barnabas.server.cluster.metadata_cache import MetadataCache
from barnabas.server.handlers import api_versions
from barnabas.server.metrics.request_statistics import RequestStatistics
from barnabas.server.network.connection import Connection
from barnabas.server.network.request_memory import RequestMemory
from barnabas.server.requests.dispatch import Call, Dispatch, MessageHandler, UnsupportedRequest
from barnabas.server.requests.replies import Pending, Refusal, Work
from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.control.describe_controller import DescribeControllerResponse
from barnabas.wire.schema import NO_THROTTLE
from barnabas.wire.varint import Truncated, uvarint
from barnabas.znodes.embedded.embedded_tree import Tree
from tests.server.raw import (
    Insight,
    RawClient,
    frame,
    on_uvloop,
    read_response,
    with_broker,
)
from tests.support.recorded_failures import RecordedFailures
from tests.support.served import ADVERTISED


class Nobody:
    """Serves as registry of a connection that has no socket."""

    def log_once(self, _: Connection, message: str, *facts: object) -> None:
        pass

    def admit(self, _: Connection) -> str | None:
        return None

    def lost(self, _: Connection) -> None: ...

    def watch(self, _: Connection) -> None: ...


def unserved(frame: memoryview, _: Connection) -> bytes:
    raise AssertionError("not reached")


def a_connection() -> Connection:
    loop, failures = asyncio.get_running_loop(), RecordedFailures(expects_none=True)
    return Connection(
        unserved,
        Nobody(),
        1000,
        "PLAINTEXT",
        loop,
        RequestStatistics(),
        failures,
        RequestMemory(-1),
    )


def served(dispatch: Dispatch, sent: bytes) -> Any:
    return dispatch(memoryview(sent)[4:], a_connection())


def versions_dispatch(handler: Any, work: Work | None = None) -> Dispatch:
    handlers = {ApiKey.API_VERSIONS: handler}
    doing = Work(RecordedFailures(expects_none=True)) if work is None else work
    return Dispatch({}, handlers, api_versions.unsupported, doing, RequestStatistics())


def ok(_: Any, __: Call) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=ErrorCode.none, api_keys=(), throttle_time=NO_THROTTLE)


# -- versions ----------------------------------------------------------------


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_an_unknown_version_of_api_versions_gets_ours_and_keeps_the_connection(
    tmp_path: Path, version: int
) -> None:
    async def scenario(insight: Insight) -> None:
        client = await insight.connect()
        for sent in (frame(ApiKey.API_VERSIONS, version, b"\x02ab", 7), unreadable(version)):
            await client.send(sent)
            answer = await client.receive()
            assert answer[:4] == struct.pack(">i", 7)
            response = read_response(ApiKey.API_VERSIONS, 0, answer)
            assert response.error_code == ErrorCode.unsupported_version
            (ours,) = response.api_keys
            assert (ours.api_key, ours.min_version, ours.max_version) == (18, 0, 4)
        await all_versions(client)

    with_broker(tmp_path, scenario)


def unreadable(version: int) -> bytes:
    """A header that may look quite different after the version."""
    return struct.pack(">ihhi", 16, ApiKey.API_VERSIONS, version, 7) + b"\x7f\xff" + b"\xff" * 6


async def all_versions(client: RawClient) -> None:
    for version in range(5):
        software = b"" if version < 3 else b"\x04raw\x041.0\0"
        response = await client.ask(frame(ApiKey.API_VERSIONS, version, software))
        assert response.error_code == ErrorCode.none
        advertised = {a.api_key: (a.min_version, a.max_version) for a in response.api_keys}
        assert advertised == {k: (a.advertised_lowest, a.highest) for k, a in ADVERTISED.items()}


@pytest.mark.parametrize("key", [k for k in APIS if k is not ApiKey.API_VERSIONS])
def test_a_version_that_is_not_served_is_refused_by_every_other_api(key: ApiKey) -> None:
    async def scenario() -> None:
        dispatch = Dispatch(
            {},
            {key: ok},
            api_versions.unsupported,
            Work(RecordedFailures(expects_none=True)),
            RequestStatistics(),
        )
        for version in (APIS[key].advertised_lowest - 1, APIS[key].highest + 1, 32767, -32768):
            with pytest.raises(UnsupportedRequest, match=f"{key.name} version {version}"):
                served(dispatch, frame(key, version, b""))

    on_uvloop(scenario())


@pytest.mark.parametrize("key", [-32768, -1, 4, 76, 32767])
def test_an_api_that_is_not_served_is_refused(key: int) -> None:
    async def scenario() -> None:
        with pytest.raises(UnsupportedRequest, match=f"API {key} "):
            served(versions_dispatch(ok), frame(key, 0, b""))

    on_uvloop(scenario())


def test_every_api_with_a_handler_is_advertised_except_our_own() -> None:
    async def scenario() -> None:
        features = Features(Tree().session(), MetadataCache("a cluster"), BrokerId(0))
        handlers: dict[ApiKey, MessageHandler] = {
            ApiKey.DESCRIBE_CONTROLLER: described,
            ApiKey.API_VERSIONS: partial(api_versions.handle, features),
            ApiKey.METADATA: ok,
        }
        dispatch = Dispatch(
            {},
            handlers,
            api_versions.unsupported,
            Work(RecordedFailures(expects_none=True)),
            RequestStatistics(),
        )
        told = read_response(
            ApiKey.API_VERSIONS, 0, served(dispatch, frame(ApiKey.API_VERSIONS, 0, b""))[4:]
        )
        assert [api.api_key for api in told.api_keys] == [ApiKey.METADATA, ApiKey.API_VERSIONS]
        answer = served(dispatch, frame(ApiKey.DESCRIBE_CONTROLLER, 0, b"\0"))
        assert read_response(ApiKey.DESCRIBE_CONTROLLER, 0, answer[4:]).state == "{}"

    on_uvloop(scenario())


def described(_: Any, __: Call) -> DescribeControllerResponse:
    return DescribeControllerResponse(error_code=ErrorCode.none, state="{}")


# -- headers -----------------------------------------------------------------


@pytest.mark.parametrize("client_id", [None, "", "me", "ü" * 300])
@pytest.mark.parametrize("version", [0, 3])
def test_a_handler_gets_the_client_id(client_id: str | None, version: int) -> None:
    told: list[str | None] = []

    def handler(_: Any, call: Call) -> ApiVersionsResponse:
        told.append(call.client_id)
        return ok(_, call)

    async def scenario() -> None:
        body = b"\x02a\x02b\0" if version == 3 else b""
        sent = frame(ApiKey.API_VERSIONS, version, body, client_id=client_id)
        assert isinstance(served(versions_dispatch(handler), sent), bytes)

    on_uvloop(scenario())
    assert told == [client_id]


def test_tags_in_the_header_are_passed_over() -> None:
    async def scenario() -> None:
        tags = uvarint(2) + uvarint(5) + uvarint(3) + b"abc" + uvarint(900) + uvarint(0)
        head = struct.pack(">hhih", ApiKey.API_VERSIONS, 3, 1, -1) + tags
        sent = bytes(4) + head + b"\x02a\x02b\0"
        assert isinstance(served(versions_dispatch(ok), sent), bytes)

    on_uvloop(scenario())


@pytest.mark.parametrize("size", range(14))
def test_a_header_that_is_cut_short_is_refused(size: int) -> None:
    async def scenario() -> None:
        whole = frame(ApiKey.API_VERSIONS, 3, b"")[4:]
        with pytest.raises((Truncated, BarnabasError)):
            served(versions_dispatch(ok), bytes(4) + whole[:size])

    on_uvloop(scenario())


# -- handlers that wait, and handlers that fail ------------------------------


def test_an_answer_that_comes_later_is_written_in_the_version_asked_for() -> None:
    async def handler(_: Any, call: Call) -> ApiVersionsResponse:
        await asyncio.sleep(0)
        return ok(_, call)

    async def scenario() -> None:
        pending = served(versions_dispatch(handler), frame(ApiKey.API_VERSIONS, 1, b"", 9))
        answer = await delivered(pending)
        assert isinstance(answer, bytes)
        assert read_response(ApiKey.API_VERSIONS, 1, answer[4:]).error_code == ErrorCode.none

    on_uvloop(scenario())


async def delivered(pending: Pending) -> object:
    future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    pending.deliver_to(future.set_result)
    return await asyncio.wait_for(future, 10)


def test_a_handler_with_a_bug_closes_its_connection_and_leaves_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def handler(_: Any, __: Call) -> ApiVersionsResponse:
        raise ZeroDivisionError

    async def scenario() -> None:
        answer = await delivered(
            served(versions_dispatch(handler), frame(ApiKey.API_VERSIONS, 0, b""))
        )
        assert isinstance(answer, Refusal)

    on_uvloop(scenario())
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None


def test_a_broken_law_stops_the_broker_also_when_the_request_had_to_wait() -> None:
    async def handler(_: Any, __: Call) -> ApiVersionsResponse:
        raise LawBroken("LOG-1")

    async def scenario() -> None:
        failures = RecordedFailures()
        sent = frame(ApiKey.API_VERSIONS, 0, b"")
        answer = await delivered(served(versions_dispatch(handler, Work(failures)), sent))
        assert isinstance(answer, Refusal)
        assert len(failures.broken) == 1

    on_uvloop(scenario())


def test_an_answer_that_nobody_waits_for_any_more_is_dropped() -> None:
    gate = asyncio.Event()

    async def handler(_: Any, call: Call) -> ApiVersionsResponse:
        await gate.wait()
        return ok(_, call)

    async def scenario() -> None:
        work = Work(RecordedFailures(expects_none=True))
        pending = served(versions_dispatch(handler, work), frame(ApiKey.API_VERSIONS, 0, b""))
        pending.abandon()
        gate.set()
        await work.finished()
        assert len(work) == 0

    on_uvloop(scenario())
