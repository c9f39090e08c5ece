"""Whatever API a client asks, and however many elements its request has, others have their turn."""

import asyncio
import dataclasses
import sys
import typing
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from types import FrameType
from typing import Any, Final

import pytest
import uvloop

from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.bounds import DECIDED_AT_ONCE, is_array, nested_entity
from barnabas.wire.schema import request_type
from tests.server.raw import Insight, broker, request
from tests.server.test_fuzz import AMONG_BROKERS, TOPIC, sensible

# Produce and Fetch are compiled, and have a bound of their own. Those among brokers have no other
# clients to hold up.
APART: Final = (*AMONG_BROKERS, ApiKey.PRODUCE, ApiKey.FETCH)
# A tenth of what is allowed where all of them may have one turn. Where a million are allowed: so
# many that a handler without turns fails.
MOST_SENT: Final = 10_000
# Each of these takes a millisecond, and others are served meanwhile.
MOST_WRITTEN: Final = 1_000
WRITE_TO_THE_TREE: Final = (
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.UPDATE_FEATURES,
)
# The calls of functions in one turn of the loop: some 12 ms. An element takes up to 100 where a
# turn has a thousand of them, and 9 where it may have all.
MOST_CALLS: Final = 120_000


def paths(entity: Any) -> Iterator[tuple[str, ...]]:
    """The arrays of a message, each by the fields that lead to it."""
    hints = typing.get_type_hints(entity)
    for field in dataclasses.fields(entity):
        nested = nested_entity(hints[field.name])
        if is_array(hints[field.name]):
            yield (field.name,)
        if nested is not None:
            yield from ((field.name, *rest) for rest in paths(nested))


def cases() -> Iterator[tuple[ApiKey, int, tuple[str, ...]]]:
    """All arrays of all APIs, each in the newest version that has it."""
    for key, api in APIS.items():
        seen: set[tuple[str, ...]] = set()
        for version in range(api.highest, api.lowest - 1, -1):
            for path in paths(request_type(key, version)):
                if path not in seen and key not in APART:
                    seen.add(path)
                    yield key, version, path


def with_many(message: Any, path: tuple[str, ...], count: int, same: bool) -> Any:
    """The message with `count` elements, all the `same` or all different, in one of its arrays."""
    name, *rest = path
    hint = typing.get_type_hints(type(message))[name]
    value = getattr(message, name)
    if not rest:
        (pattern,) = value or (_element(hint),)
        many = (pattern if same else _other(pattern, n) for n in range(count))
        return dataclasses.replace(message, **{name: tuple(many)})
    if not is_array(hint):
        return dataclasses.replace(message, **{name: with_many(value, tuple(rest), count, same)})
    (nested,) = value or (_element(hint),)
    return dataclasses.replace(message, **{name: (with_many(nested, tuple(rest), count, same),)})


def _element(hint: Any) -> Any:
    nested = nested_entity(hint)
    return 0 if nested is None else sensible(nested)


def _other(pattern: Any, number: int) -> Any:
    """An element like the pattern; the first of its fields that tells elements apart differs."""
    if isinstance(pattern, str):
        return f"{pattern}{number}"
    if isinstance(pattern, int) and not isinstance(pattern, bool):
        return type(pattern)(number)
    if dataclasses.is_dataclass(pattern) and not isinstance(pattern, type):
        fields = [field.name for field in dataclasses.fields(pattern)]
        for kind in (str, int):
            for name in fields:
                value = getattr(pattern, name)
                if type(value) is kind and "operation" not in name:
                    return dataclasses.replace(pattern, **{name: _other(value, number)})
    return pattern


@contextmanager
def calls_per_turn() -> Iterator[list[int]]:
    """The calls of functions in the turn of the loop that had most of them."""
    loop, calls, most = asyncio.get_running_loop(), 0, [0]

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    def turn() -> None:
        nonlocal calls
        most[0], calls = max(most[0], calls), 0
        if sys.getprofile() is count:
            loop.call_soon(turn)

    sys.setprofile(count)
    turn()
    try:
        yield most
    finally:
        sys.setprofile(None)


# Handlers that once had all elements in one turn.
IN_BRIEF: Final = (
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.DELETE_RECORDS,
    ApiKey.DELETE_TOPICS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.ELECT_LEADERS,
    ApiKey.LIST_GROUPS,
    ApiKey.TXN_OFFSET_COMMIT,
)


class Served:
    """One broker for all APIs."""

    def __init__(self, runner: asyncio.Runner, insight: Insight) -> None:
        self._runner = runner
        self._insight = insight

    def most_calls(self, sent: bytes) -> int:
        """The calls in the turn that had most of them, while a request is served."""
        return self._runner.run(self._most_calls(sent))

    async def _most_calls(self, sent: bytes) -> int:
        client = await self._insight.connect(limit=2**26)
        with calls_per_turn() as most:
            await client.send(sent)
            await client.receive()
        await client.close()
        return most[0]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        stack = AsyncExitStack()

        async def start() -> Insight:
            insight = await stack.enter_async_context(
                broker(tmp_path_factory.mktemp("turns"), auto_create_topics_enable="false")
            )
            await insight.create(TOPIC)
            return insight

        yield Served(runner, runner.run(start()))
        runner.run(stack.aclose())


@pytest.mark.xdist_group("turns")  # they share one broker
@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize(
    ("key", "version", "path"),
    [
        pytest.param(
            *case,
            id=f"{case[0].name}-{case[1]}-{'.'.join(case[2])}",
            marks=() if case[0] in IN_BRIEF else pytest.mark.long,
        )
        for case in cases()
    ],
)
def test_no_array_holds_the_loop(
    served: Served, key: ApiKey, version: int, path: tuple[str, ...], same: bool
) -> None:
    count = 4 * MOST_SENT if key not in DECIDED_AT_ONCE else MOST_SENT
    if key in WRITE_TO_THE_TREE:
        count = MOST_WRITTEN
    template = sensible(request_type(key, version))
    served.most_calls(request(key, version, with_many(template, path, 1, same)))  # loads modules
    most = served.most_calls(request(key, version, with_many(template, path, count, same)))
    assert most <= MOST_CALLS
