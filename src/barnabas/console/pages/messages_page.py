"""Messages of a topic: a form, and a stream of rows that ends with the tab."""

import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from barnabas.cli.exit_codes import Misused
from barnabas.cli.options import parse_moment
from barnabas.console.cluster.console_client import ClusterFailed
from barnabas.console.cluster.topic_index import read_partitions
from barnabas.console.messages.filter_language import WrongFilter
from barnabas.console.messages.filter_process import FilterStopped
from barnabas.console.messages.message_search import MOST_SCANNED, MessageSearch, Part, Wanted
from barnabas.console.messages.message_view import (
    FORMATS,
    ShownMessage,
    for_download,
    show_message,
)
from barnabas.console.messages.record_reader import Leaders, ReadMessage
from barnabas.console.pages.produce_page import find_record
from barnabas.console.pages.topic_page import topic_row
from barnabas.console.web.limits import Crowded
from barnabas.console.web.page import Page, parse_integer, server_sent, sign_in_first
from barnabas.console.web.rendering import sentence

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
_SHOWN: Final = 40
_MOST_CONTINUED: Final = 2_000  # partitions: their offsets are in a URL
_LIMIT: Final = 50
_MOST: Final = 1_000
_RENDERED: Final = 100  # rows at once: others are served meanwhile
_MOST_AT_ONCE: Final = 200


class MessagesForm(NamedTuple):
    """The form of the page."""

    where: str
    value: str
    partition: str
    filter: str
    text: str
    format: str
    limit: int


def asked_of(page: Page) -> MessagesForm:
    where = page.argument("where", "newest")
    wanted = page.argument("format", "auto")
    return MessagesForm(
        where if where in dict(WHERE) else "newest",
        page.argument("value"),
        page.argument("partition"),
        page.argument("filter") if page.argument("filter") in dict(FILTERS) else "",
        page.argument("text"),
        wanted if wanted in FORMATS else "auto",
        page.integer("limit", _LIMIT, 1, _MOST),
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
        "most": _MOST,
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
        async for part in _parts(page):
            for left_out in part.left_out:
                missing = {"partition": left_out.partition.partition, "why": left_out.why}
                yield json.dumps({"unreadable": missing}) + "\n"
            for bad in part.unreadable:
                yield json.dumps({"unreadable": bad._asdict()}) + "\n"
            for message in part.messages:
                yield json.dumps(for_download(message, registry), ensure_ascii=False) + "\n"

    rest = lines()
    try:
        first = await anext(rest, "")  # a failure is a page, not half a file
    except (WrongFilter, FilterStopped, Misused, Crowded) as failure:
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
    asked, topic = asked_of(page), page.request.path_params["topic"]
    # Rows become part of the page, one level above the stream.
    there = {"topic": topic, "asked": asked, "root": page.root.removesuffix("../")}
    count, before = page.integer("shown", 0), page.integer("scanned", 0)
    scanned = 0
    try:
        async for part in _parts(page):
            scanned, count = scanned + part.looked_at, count + len(part.messages)
            words = f"{count:,} shown, {before + scanned:,} read"
            if part.trouble:
                words += f"; {part.trouble}: trying again"
            found = part.messages
            if asked.where == "live":
                found = found[-_MOST_AT_ONCE:]  # nobody reads more a second
            if part.unreadable or part.left_out:
                given = page.context({**part._asdict(), **there})
                html = page.state.templates.page("message_unreadable.html", given)
                yield server_sent("unreadable", html)
            for first in range(0, len(found), _RENDERED):
                some = found[first : first + _RENDERED]
                shown = await page.state.offload(partial(_shown, page, asked, some))
                given = page.context({"messages": shown, **there})
                yield server_sent("rows", page.state.templates.page("message_rows.html", given))
            yield server_sent("progress", words)
            if part.rest is not None and len(part.rest) <= _MOST_CONTINUED:
                yield server_sent("more", _more(part.rest, count, before + scanned))
        ended = f"{count:,} shown, {before + scanned:,} read"
        if scanned >= MOST_SCANNED:
            ended += ", as many as one search reads"
        yield server_sent("done", ended)
    except (ClusterFailed, WrongFilter, FilterStopped, Misused, Crowded) as failure:
        yield server_sent("failed", f"{sentence(str(failure))}.")


def _shown(page: Page, asked: MessagesForm, messages: list[ReadMessage]) -> list[ShownMessage]:
    return [show_message(each, asked.format, page.state.registry) for each in messages]


async def _parts(page: Page) -> AsyncIterator[Part]:
    """The parts of a search, which has a place as long as it goes on. Raises Crowded."""
    filters = page.state.filters.taken() if asked_of(page).filter else contextlib.nullcontext()
    with page.state.searches.taken(), filters:
        async for part in _search(page).parts():
            yield part


def _search(page: Page) -> MessageSearch:
    """Raises Misused"""
    asked = asked_of(page)
    wanted = Wanted(asked.where, _value(asked), asked.filter, asked.text, asked.limit, _after(page))
    return MessageSearch(
        page.cluster.client,
        page.state.offload,
        page.state.registry,
        page.request.path_params["topic"],
        _leaders(page, asked),
        wanted,
    )


def _value(asked: MessagesForm) -> int:
    """The offset or time where reading begins. Raises Misused."""
    if asked.where == "time":
        return parse_moment(asked.value, "")
    if asked.where != "offset":
        return 0
    offset = parse_integer(asked.value)
    if offset is None:
        raise Misused(f"“{asked.value[:_SHOWN]}” is not an offset: expected a number such as 1200")
    return offset


def _after(page: Page) -> dict[int, int]:
    """The offsets where the search before ended, as `_more` writes them."""
    pairs = (each.partition(":") for each in page.argument("after").split(",") if each)
    found = {parse_integer(number): parse_integer(offset) for number, _, offset in pairs}
    return {n: at for n, at in found.items() if n is not None and at is not None}


def _more(rest: Mapping[int, int], shown: int, scanned: int) -> str:
    """The query, besides that of the page, that searches for more messages."""
    after = ",".join(f"{number}:{offset}" for number, offset in rest.items())
    return urlencode({"after": after, "shown": shown, "scanned": scanned})


def _leaders(page: Page, asked: MessagesForm) -> Leaders:
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
