"""Messages of a topic: a form, and a stream of rows that ends with the tab."""

import json
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from barnabas.cli.exit_codes import Misused
from barnabas.cli.options import parse_moment
from barnabas.console.cluster.console_client import ClusterFailed
from barnabas.console.cluster.topic_index import read_partitions
from barnabas.console.messages.filter_language import WrongFilter
from barnabas.console.messages.filter_process import FilterProcess, FilterStopped
from barnabas.console.messages.message_view import (
    FORMATS,
    ShownMessage,
    for_download,
    for_filter,
    show_message,
)
from barnabas.console.messages.record_reader import (
    Leaders,
    ReadMessage,
    ReadPlan,
    RecordReader,
    UnreadableBatch,
    plan_reading,
)
from barnabas.console.pages.produce_page import find_record
from barnabas.console.pages.topic_page import topic_row
from barnabas.console.web.page import Page, parse_integer, server_sent, sign_in_first

WHERE: Final = (
    ("newest", "the newest"),
    ("oldest", "the oldest"),
    ("offset", "from an offset"),
    ("time", "from a time"),
    ("live", "as they arrive"),
)
FILTERS: Final = (
    ("", "no filter"),
    ("key", "key contains"),
    ("value", "value contains"),
    ("header", "a header contains"),
    ("path", "JSON path"),
    ("expression", "expression"),
)
_MOST_SCANNED: Final = 2_000_000
_LIMITS: Final = (50, 200, 1_000)
_RENDERED: Final = 100  # rows at once: others are served meanwhile
_MOST_AT_ONCE: Final = 200


class Asked(NamedTuple):
    """The form of the page."""

    where: str
    value: str
    partition: str
    filter: str
    text: str
    format: str
    limit: int


def asked_of(page: Page) -> Asked:
    where = page.argument("where", "newest")
    wanted = page.argument("format", "auto")
    return Asked(
        where if where in dict(WHERE) else "newest",
        page.argument("value"),
        page.argument("partition"),
        page.argument("filter") if page.argument("filter") in dict(FILTERS) else "",
        page.argument("text"),
        wanted if wanted in FORMATS else "auto",
        page.integer("limit", _LIMITS[0], 1, _LIMITS[-1]),
    )


async def show(request: Request) -> Response:
    page = Page(request)
    if not page.is_known:
        return sign_in_first(page)
    name = request.path_params["topic"]
    given: dict[str, Any] = {
        "topic": name,
        "asked": asked_of(page),
        "partitions": [],
        "where": WHERE,
        "filters": FILTERS,
        "formats": FORMATS,
        "limits": _LIMITS,
        "query_text": request.url.query,
    }
    try:
        row = await topic_row(page, name)
        given["partitions"] = [each.partition for each in read_partitions(row)]
    except ClusterFailed as failure:
        given["failure"] = str(failure)
    return page.render("messages.html", given)


async def stream(request: Request) -> Response:
    page = Page(request)
    if not page.is_known:
        return sign_in_first(page)
    return page.stream(_events(page))


async def download(request: Request) -> Response:
    """The same messages, one JSON object a line; they are whole. Raises ClusterFailed."""
    page = Page(request)
    if not page.is_known:
        return sign_in_first(page)
    registry = page.state.registry

    async def lines() -> AsyncIterator[str]:
        async for part in _read(page):
            for bad in part.unreadable:
                yield json.dumps({"unreadable": bad._asdict()}) + "\n"
            for message in part.messages:
                yield json.dumps(for_download(message, registry), ensure_ascii=False) + "\n"

    rest = lines()
    try:
        first = await anext(rest, "")  # a failure is a page, not half a file
    except (WrongFilter, FilterStopped, Misused) as failure:
        raise ClusterFailed(str(failure)) from None

    async def all_lines() -> AsyncIterator[str]:
        yield first
        async for line in rest:
            yield line

    return StreamingResponse(
        all_lines(), media_type="application/x-ndjson", headers=_as_file(page, "jsonl")
    )


async def value(request: Request) -> Response:
    """The bytes of one value. Raises ClusterFailed."""
    page = Page(request)
    if not page.is_known:
        return sign_in_first(page)
    partition, offset = page.integer("partition", 0), page.integer("offset", 0)
    record = await find_record(page, request.path_params["topic"], partition, offset)
    return Response(
        record.value or b"",
        media_type="application/octet-stream",
        headers=_as_file(page, f"{partition}-{offset}.bin"),
    )


def _as_file(page: Page, suffix: str) -> dict[str, str]:
    name = quote(f"{page.request.path_params['topic']}.{suffix}", safe="")
    return {"content-disposition": f'attachment; filename="{name}"'}


async def _events(page: Page) -> AsyncIterator[str]:
    scanned = count = 0
    asked, topic = asked_of(page), page.request.path_params["topic"]
    # Rows become part of the page, one level above the stream.
    there = {"topic": topic, "asked": asked, "root": page.root.removesuffix("../")}
    try:
        async for part in _read(page):
            scanned, count = scanned + part.looked_at, count + len(part.messages)
            found = part.messages
            if asked.where == "live":
                found = found[-_MOST_AT_ONCE:]  # nobody reads more a second
            if part.unreadable:
                given = page.context({"batches": part.unreadable, **there})
                html = page.state.templates.page("message_unreadable.html", given)
                yield server_sent("unreadable", html)
            for first in range(0, len(found), _RENDERED):
                some = found[first : first + _RENDERED]
                shown = await page.state.offload(partial(_shown, page, asked, some))
                given = page.context({"messages": shown, **there})
                yield server_sent("rows", page.state.templates.page("message_rows.html", given))
            yield server_sent("progress", f"{count:,} shown, {scanned:,} read")
        ended = f"{count:,} shown, {scanned:,} read"
        if scanned >= _MOST_SCANNED:
            ended += ", as many as one search reads; begin at another offset or time for more"
        yield server_sent("done", ended)
    except (ClusterFailed, WrongFilter, FilterStopped, Misused) as failure:
        yield server_sent("failed", str(failure))


def _shown(page: Page, asked: Asked, messages: list[ReadMessage]) -> list[ShownMessage]:
    return [show_message(each, asked.format, page.state.registry) for each in messages]


def _for_filter(page: Page, messages: list[ReadMessage]) -> list[dict[str, Any]]:
    return [for_filter(each, page.state.registry) for each in messages]


class Part(NamedTuple):
    """Messages that match, how many were read for them, and batches that cannot be read."""

    messages: list[ReadMessage]
    looked_at: int
    unreadable: list[UnreadableBatch]


Found = AsyncIterator[Part]


async def _read(page: Page) -> Found:
    """Messages that match, in the order of the page."""
    asked = asked_of(page)
    leaders = _leaders(page, asked)
    value = 0
    if asked.where == "time":
        value = parse_moment(asked.value, "")
    elif asked.where == "offset":
        value = parse_integer(asked.value) or 0
    client = page.cluster.client
    plan = await plan_reading(
        client, page.request.path_params["topic"], await leaders(), asked.where, value
    )
    process = await FilterProcess.start(asked.filter, asked.text) if asked.filter else None

    async def matching(plan: ReadPlan) -> Found:
        reader = RecordReader(client, page.state.offload, plan, leaders)
        async for batch in reader.batches():
            kept = batch
            if process is not None and batch:
                fields = await page.state.offload(partial(_for_filter, page, batch))
                kept = [batch[n] for n in await process.keep(fields)]
            yield Part(kept, len(batch), reader.take_unreadable())

    try:
        ways = {"newest": _newest, "live": _live}
        async for found in ways.get(asked.where, _oldest)(asked, plan, matching):
            yield found
    finally:
        if process is not None:
            await process.close()


Matching = Callable[[ReadPlan], Found]


async def _live(_: Asked, plan: ReadPlan, matching: Matching) -> Found:
    async for found in matching(plan):
        yield found


async def _oldest(asked: Asked, plan: ReadPlan, matching: Matching) -> Found:
    room, scanned = asked.limit, 0
    async for part in matching(plan):
        yield part._replace(messages=part.messages[:room])
        room, scanned = room - len(part.messages), scanned + part.looked_at
        if room <= 0 or scanned >= _MOST_SCANNED:
            return


async def _newest(asked: Asked, plan: ReadPlan, matching: Matching) -> Found:
    """The newest first. A log is read forward only: so part by part, from its end."""
    room, scanned = asked.limit, 0
    for part in plan.windows(asked.limit, is_filtered=bool(asked.filter)):
        newest: list[ReadMessage] = []
        async for found in matching(part):
            newest = sorted([*newest, *found.messages], key=_newest_first)[:room]
            scanned += found.looked_at
            yield found._replace(messages=[])
        yield Part(newest, 0, [])
        room -= len(newest)
        if room <= 0 or scanned >= _MOST_SCANNED:
            return


def _newest_first(message: ReadMessage) -> tuple[int, int, int]:
    return -message.record.timestamp, message.partition, -message.record.offset


def _leaders(page: Page, asked: Asked) -> Leaders:
    async def leaders() -> dict[int, int]:
        row = await topic_row(page, page.request.path_params["topic"])
        return {
            each.partition: each.leader
            for each in read_partitions(row)
            if asked.partition in ("", str(each.partition))
        }

    return leaders


ROUTES: Final = (
    Route("/topics/{topic}/messages", show, methods=["GET"]),
    Route("/topics/{topic}/messages/stream", stream, methods=["GET"]),
    Route("/topics/{topic}/messages/download", download, methods=["GET"]),
    Route("/topics/{topic}/messages/value", value, methods=["GET"]),
)
