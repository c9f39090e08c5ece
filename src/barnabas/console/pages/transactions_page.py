"""Transactions: those that coordinators list, by producer; hanging ones, and their abort."""

import asyncio
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple

from barnabas.base.errors import ErrorCode
from barnabas.client.metadata import fields
from barnabas.client.retries import error_words
from barnabas.console.cluster.console_client import ClusterFailed, check
from barnabas.console.cluster.extra_apis import (
    DESCRIBE_TRANSACTIONS,
    LIST_TRANSACTIONS,
    WRITE_TXN_MARKERS,
    ask_extra,
)
from barnabas.console.cluster.topic_index import read_partitions
from barnabas.console.cluster.topics import read_producers
from barnabas.console.pages.topic_page import topic_row
from barnabas.console.web.actions import LONGEST, Form, Plan, action, integer
from barnabas.console.web.page import Context, Page, live_page

ALL: Final = "*"
_SHOWN: Final = 200
_MOST_PARTITIONS: Final = 5_000
_IN_PROGRESS: Final = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


class TransactionRow(NamedTuple):
    """One transactional id, as its coordinator describes it."""

    transactional_id: str
    state: str
    producer_id: int
    epoch: int
    timeout_ms: int
    started_ms: int | None
    partitions: list[str]
    coordinator: int


class Listed(NamedTuple):
    """One transactional id, as its coordinator lists it."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


async def gather_transactions(page: Page) -> Context:
    client = page.cluster.client
    if not await client.offers(LIST_TRANSACTIONS.key):
        return {"is_offered": False, "rows": [], "open": []}
    listed, missing = await _list(page)
    wanted, state = page.argument("q").lower(), page.argument("state")
    chosen = [
        each
        for each in listed
        if (wanted in each.transactional_id.lower() or wanted == str(each.producer_id))
        and state in ("", each.state)
    ]
    topic = page.argument("topic")
    rows, not_described = await _describe(page, chosen[:_SHOWN])
    return {
        "is_offered": True,
        "q": page.argument("q"),
        "state": state,
        "topic": topic,
        "all": ALL,
        "rows": rows,
        "found": len(chosen),
        "states": sorted({each.state for each in listed}),
        "missing": list(dict.fromkeys([*missing, *not_described])),
        "open": await _open_in(page, topic, _in_progress(listed)) if topic else [],
    }


async def _list(page: Page) -> tuple[list[Listed], list[str]]:
    """The transactional ids by all coordinators, and why those of some brokers are missing."""
    client = page.cluster.client
    request = fields(state_filters=(), producer_id_filters=())
    brokers = (await client.view()).ids
    answers = await asyncio.gather(
        *(
            client.patiently(each, partial(ask_extra, client, each, LIST_TRANSACTIONS, request))
            for each in brokers
        ),
        return_exceptions=True,
    )
    found: list[Listed] = []
    missing: list[str] = []
    for broker, answer in zip(brokers, answers, strict=True):
        if isinstance(answer, ClusterFailed):
            missing.append(f"broker {broker}: {answer}")
        elif isinstance(answer, BaseException):
            raise answer
        elif answer.error_code is not ErrorCode.none:
            missing.append(f"broker {broker}: {error_words(answer.error_code)}")
        else:
            found += [
                Listed(each.transactional_id, each.producer_id, each.transaction_state, broker)
                for each in answer.transaction_states
            ]
    return sorted(found), missing


def _in_progress(listed: list[Listed]) -> set[int]:
    return {each.producer_id for each in listed if each.state in _IN_PROGRESS}


async def _describe(page: Page, listed: list[Listed]) -> tuple[list[TransactionRow], list[str]]:
    """The transactions of coordinators that answer, and why others do not."""
    client, names = page.cluster.client, dict[int, list[str]]()
    for each in listed:
        names.setdefault(each.coordinator, []).append(each.transactional_id)
    rows: list[TransactionRow] = []
    missing: list[str] = []
    for broker, ids in names.items():
        request = fields(transactional_ids=tuple(ids))
        ask = partial(ask_extra, client, broker, DESCRIBE_TRANSACTIONS, request)
        try:
            answer = await client.patiently(broker, ask)
        except ClusterFailed as failure:
            missing.append(f"broker {broker}: {failure}")
            continue
        rows += [
            _row(each, broker)
            for each in answer.transaction_states
            if each.error_code is ErrorCode.none
        ]
    return sorted(rows), missing


def _row(each: Any, broker: int) -> TransactionRow:
    started = each.transaction_start_time
    return TransactionRow(
        each.transactional_id,
        each.transaction_state,
        each.producer_id,
        each.producer_epoch,
        round(each.transaction_timeout.total_seconds() * 1000),
        round(started.timestamp() * 1000) if isinstance(started, datetime) else None,
        [f"{topic.topic}-{number}" for topic in each.topics for number in topic.partitions],
        broker,
    )


async def _open_in(page: Page, topic: str, known: set[int]) -> list[dict[str, Any]]:
    """Open transactions in the partitions of a topic, or of all; hanging if no coordinator knows.

    One that ended or began meanwhile is known either before or after. Where a coordinator does
    not answer, nothing is hanging: it may know the transaction.
    """
    rows = list((await page.cluster.index.get()).topics.values())
    if topic != ALL:
        rows = [await topic_row(page, topic)]
    elif sum(row.partitions for row in rows) > _MOST_PARTITIONS:
        raise ClusterFailed(
            f"the cluster has more than {_MOST_PARTITIONS:,} partitions, too many to look at each"
            " again and again; choose a topic"
        )
    wanted = {row.name: read_partitions(row) for row in rows}
    producers = await read_producers(page.cluster.client, wanted)
    listed, missing = await _list(page)
    known = known | _in_progress(listed)
    verdicts = {True: "open", False: "unknown" if missing else "hanging"}
    return [
        {"producer": each, "verdict": verdicts[each.producer_id in known]}
        for each in producers
        if each.transaction_start >= 0
    ]


async def plan_abort(page: Page, form: Form) -> Plan:
    topic = form.get("topic", "")
    partition = integer(form, "partition", 0, "The partition")
    producer = integer(form, "producer", 0, "The producer id", LONGEST)
    epoch = integer(form, "epoch", 0, "The producer epoch", 2**15 - 1)
    coordinator_epoch = integer(form, "coordinator_epoch", -1, "The coordinator epoch")
    row = await topic_row(page, topic)
    found = [each for each in read_partitions(row) if each.partition == partition]
    if not found or found[0].leader < 0:
        raise ClusterFailed(f"{topic}-{partition} has no leader")

    async def carry_out() -> str:
        marker = fields(
            producer_id=producer,
            producer_epoch=epoch,
            transaction_result=False,
            topics=(fields(name=topic, partition_indexes=(partition,)),),
            coordinator_epoch=max(0, coordinator_epoch),
        )
        client = page.cluster.client
        request = fields(markers=(marker,))
        answer = await ask_extra(client, found[0].leader, WRITE_TXN_MARKERS, request)
        for result in answer.markers[0].topics:
            for each in result.partitions:
                check(each, f"{topic}-{partition}")
        return f"The transaction of producer {producer} in {topic}-{partition} was aborted."

    effects = [
        f"{topic}-{partition} gets an abort marker of producer {producer}, epoch {epoch}.",
        "Consumers with read_committed read on; the transaction's records are not shown to them.",
        "Do this only if the transaction hangs: its coordinator no longer knows it.",
    ]
    back = f"transactions?topic={topic}"
    title = f"Abort the transaction of producer {producer}"
    return Plan(title, effects, "Abort", carry_out, back, is_dangerous=True)


ROUTES: Final = (
    live_page("/transactions", "transactions.html", gather_transactions, 5.0),
    action("/transactions/abort", "abort transaction", plan_abort),
)
