"""Consumer groups: the list with lag, and one group with members, offsets and history."""

from typing import Final

from barnabas.console.cluster.groups import describe_group, is_spark
from barnabas.console.web.page import Context, Page

PER_PAGE: Final = 50
_PARTITIONS: Final = 200  # of a group on a page


async def gather_groups(page: Page) -> Context:
    snapshot = await page.cluster.lags.get()
    wanted, state = page.argument("q").lower(), page.argument("state")
    found = [
        each
        for name, each in snapshot.groups.items()
        if wanted in name.lower() and state in ("", each.group.state)
    ]
    if page.argument("sort") == "lag":
        found.sort(key=lambda each: -(each.total.messages or 0))
    last = max(1, -(-len(found) // PER_PAGE))
    number = page.integer("page", 1, 1, last)
    return {
        "q": page.argument("q"),
        "state": state,
        "sort": page.argument("sort"),
        "states": sorted({each.group.state for each in snapshot.groups.values()}),
        "rows": found[(number - 1) * PER_PAGE : number * PER_PAGE],
        "found": len(found),
        "all": len(snapshot.groups),
        "missing": snapshot.missing,
        "page": number,
        "last": last,
    }


async def gather_group(page: Page) -> Context:
    name = page.argument("name")
    cluster = page.cluster
    group = await describe_group(cluster.client, await cluster.index.get(), name)
    await cluster.lags.get()  # adds a sample to the ring
    history = cluster.lags.history(name)
    about = f"group {name}"
    last = max(1, -(-len(group.partitions) // _PARTITIONS))
    number = page.integer("page", 1, 1, last)
    return {
        "rows": group.partitions[(number - 1) * _PARTITIONS : number * _PARTITIONS],
        "page": number,
        "last": last,
        "name": name,
        "group": group,
        "is_spark": is_spark(name),
        "history": [
            [each.at_ms / 1000 for each in history],
            [None if each.left_out else each.lag for each in history],
            [each.lag if each.left_out else None for each in history],
        ],
        "has_partial": any(each.left_out for each in history),
        "events": [
            e for e in cluster.watch.events if e.what.startswith((f"{about}:", f"{about} "))
        ],
        "most": max((each.lag or 0 for each in group.partitions), default=0),
    }
