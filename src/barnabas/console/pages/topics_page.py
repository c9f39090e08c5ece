"""The list of topics: searched, sorted and paged on the server."""

from typing import Final

from barnabas.console.cluster.console_client import ClusterFailed
from barnabas.console.cluster.topic_index import TopicRow
from barnabas.console.watch.group_lags import LagSnapshot
from barnabas.console.web.page import Context, Page

PER_PAGE: Final = 25
_SORTS: Final = ("name", "partitions", "health", "lag")


async def gather_topics(page: Page) -> Context:
    cluster = page.cluster
    index = await cluster.index.get()
    wanted = page.argument("q").lower()
    shows_internal = page.argument("internal") == "yes"
    sort = page.argument("sort") if page.argument("sort") in _SORTS else "name"
    found = [
        row
        for row in index.topics.values()
        if wanted in row.name.lower() and (shows_internal or not row.name.startswith("__"))
    ]
    lags = await _lags(page)
    found = _sorted(found, sort, lags)
    last = max(1, -(-len(found) // PER_PAGE))
    number = page.integer("page", 1, 1, last)
    rows = found[(number - 1) * PER_PAGE : number * PER_PAGE]
    figures = await cluster.figures.get(rows)
    return {
        "q": page.argument("q"),
        "sort": sort,
        "shows_internal": shows_internal,
        "rows": rows,
        "figures": figures,
        "lags": {row.name: lags.of_topic(row.name) if lags else [] for row in rows},
        "are_lags_known": lags is not None and lags.is_whole,
        "found": len(found),
        "all": len(index.topics),
        "page": number,
        "last": last,
    }


async def _lags(page: Page) -> LagSnapshot | None:
    """The groups' lag; a list of topics is of use without it."""
    try:
        return await page.cluster.lags.get()
    except ClusterFailed:
        return None


def _sorted(rows: list[TopicRow], sort: str, lags: LagSnapshot | None) -> list[TopicRow]:
    match sort:
        case "partitions":
            return sorted(rows, key=lambda row: -row.partitions)
        case "health":
            return sorted(rows, key=lambda row: (-row.offline, -row.under_replicated))
        case "lag" if lags is not None:
            behind = lags.by_topic()
            return sorted(rows, key=lambda row: -behind[row.name])
        case _:
            return rows
