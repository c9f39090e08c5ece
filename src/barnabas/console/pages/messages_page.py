"""Messages of a topic: a form, and a stream of rows that ends with the tab."""

import json
from collections.abc import AsyncIterator
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
from barnabas.console.messages.message_view import FORMATS, ShownMessage, for_filter, show_message
from barnabas.console.messages.record_reader import ReadPlan, RecordReader, plan_reading
from barnabas.console.pages.topic_page import topic_row
from barnabas.console.web.page import EVENT_STREAM, Page, server_sent, sign_in_first

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
    return StreamingResponse(_events(page), media_type=EVENT_STREAM)


async def download(request: Request) -> Response:
    """The same messages, one JSON object a line."""
    page = Page(request)
    if not page.is_known:
        return sign_in_first(page)

    async def lines() -> AsyncIterator[str]:
        async for shown, _ in _read(page):
            for message in shown:
                fields = {**for_filter(message), "value_format": message.value.kind}
                yield json.dumps(fields, ensure_ascii=False) + "\n"

    name = quote(f"{request.path_params['topic']}.jsonl", safe="")
    return StreamingResponse(
        lines(),
        media_type="application/x-ndjson",
        headers={"content-disposition": f'attachment; filename="{name}"'},
    )


async def _events(page: Page) -> AsyncIterator[str]:
    scanned = found = 0
    topic = page.request.path_params["topic"]
    try:
        async for shown, looked_at in _read(page):
            scanned, found = scanned + looked_at, found + len(shown)
            given = page.context({"messages": shown, "topic": topic})
            if shown:
                yield server_sent("rows", page.state.templates.page("message_rows.html", given))
            yield server_sent("progress", f"{found:,} shown, {scanned:,} read")
        yield server_sent("done", f"{found:,} shown, {scanned:,} read")
    except (ClusterFailed, WrongFilter, FilterStopped, Misused) as failure:
        yield server_sent("failed", str(failure))


async def _read(page: Page) -> AsyncIterator[tuple[list[ShownMessage], int]]:
    """Messages that match, and the number that was read for them, batch by batch."""
    asked = asked_of(page)
    plan, leaders = await _plan(page, asked)
    reader = RecordReader(page.cluster.client, page.state.offload, plan, leaders)
    process = await FilterProcess.start(asked.filter, asked.text) if asked.filter else None
    found = scanned = 0
    try:
        async for batch in reader.batches():
            shown = await page.state.offload(
                lambda batch=batch: [
                    show_message(m, asked.format, page.state.registry) for m in batch
                ]  # type: ignore[misc]  # - bound now
            )
            scanned += len(shown)
            if process is not None and shown:
                kept = await process.keep([for_filter(each) for each in shown])
                shown = [shown[n] for n in kept]
            room = len(shown) if asked.where == "live" else asked.limit - found
            yield shown[:room], len(batch)
            found += len(shown[:room])
            if asked.where != "live" and (found >= asked.limit or scanned >= _MOST_SCANNED):
                return
    finally:
        if process is not None:
            await process.close()


async def _plan(page: Page, asked: Asked) -> tuple[ReadPlan, dict[int, int]]:
    name = page.request.path_params["topic"]
    row = await topic_row(page, name)
    partitions = [
        each for each in read_partitions(row) if asked.partition in ("", str(each.partition))
    ]
    value = 0
    if asked.where == "time":
        value = parse_moment(asked.value, "")
    elif asked.where == "offset":
        value = int(asked.value) if asked.value.isdecimal() else 0
    elif asked.where == "newest":
        each_of = -(-asked.limit // max(1, len(partitions)))
        value = each_of if not asked.filter else _MOST_SCANNED
    leaders = {each.partition: each.leader for each in partitions}
    return await plan_reading(page.cluster.client, name, partitions, asked.where, value), leaders


ROUTES: Final = (
    Route("/topics/{topic}/messages", show, methods=["GET"]),
    Route("/topics/{topic}/messages/stream", stream, methods=["GET"]),
    Route("/topics/{topic}/messages/download", download, methods=["GET"]),
)
