"""One topic: partitions with leader, ISR, epochs, offsets and sizes; configs; groups; producers."""

from typing import Final

from barnabas.base.ids import TopicPartition
from barnabas.console.cluster.console_client import ClusterFailed
from barnabas.console.cluster.groups import LeftOut, why_unknown
from barnabas.console.cluster.topic_index import TopicRow, read_partitions
from barnabas.console.cluster.topics import (
    read_offsets,
    read_producers,
    read_sizes,
    read_topic_configs,
)
from barnabas.console.watch.topic_figures import Figures
from barnabas.console.web.page import Context, Page

_PER_PAGE: Final = 100
_COUNTED: Final = 2_000


async def topic_row(page: Page, name: str) -> TopicRow:
    """Raises ClusterFailed if there is no such topic"""
    row = (await page.cluster.index.get()).topics.get(name)
    if row is None:
        page.cluster.index.forget()  # it may be newer than a large index
        row = (await page.cluster.index.get()).topics.get(name)
    if row is None:
        raise ClusterFailed(
            f"there is no topic {name} in this cluster; it may have been deleted: search for it"
            " under Topics"
        )
    return row


async def gather_topic(page: Page) -> Context:
    client, name = page.cluster.client, page.request.path_params["topic"]
    row = await topic_row(page, name)
    partitions = read_partitions(row)
    last = max(1, -(-len(partitions) // _PER_PAGE))
    number = page.integer("page", 1, 1, last)
    shown = partitions[(number - 1) * _PER_PAGE : number * _PER_PAGE]
    # Of very many partitions only those of this page are asked at once.
    counted = partitions if len(partitions) <= _COUNTED else shown
    leaders = {TopicPartition(name, each.partition): each.leader for each in counted}
    offsets = await read_offsets(client, leaders)
    replicas = {TopicPartition(name, each.partition): each.replicas for each in counted}
    sizes = await read_sizes(client, replicas)
    if counted is partitions:
        rates = page.cluster.watch.rates.observe(offsets.latest)
        figures = Figures(sizes.of_topic(name), rates.get(name))
    else:
        figures = (await page.cluster.figures.get([row]))[name]
    lags = await page.cluster.lags.get()
    alive = (await client.view()).ids
    return {
        "topic": row,
        "tab": "partitions",
        "partitions": [
            {
                "row": each,
                "at": (at := TopicPartition(name, each.partition)),
                "earliest": offsets.earliest.get(at),
                "latest": offsets.latest.get(at),
                "replicas": [
                    {
                        "broker": broker,
                        "is_leader": broker == each.leader,
                        "is_in_sync": broker in each.isr,
                        "is_alive": broker in alive,
                        "size": sizes.replicas.get((at, broker)),
                        "behind": sizes.offset_lag.get((at, broker)),
                    }
                    for broker in each.replicas
                ],
            }
            for each in shown
        ],
        "messages": offsets.messages() if counted is partitions else None,
        "left_out": [
            LeftOut(at, why_unknown(at, leaders)) for at in leaders if at not in offsets.latest
        ],
        "figures": figures,
        "is_size_partial": any(
            (at, broker) not in sizes.replicas for at in replicas for broker in replicas[at]
        ),
        "groups": lags.of_topic(name),
        "are_lags_known": lags.is_whole,
        "producers": await read_producers(client, {name: shown}),
        "page": number,
        "last": last,
    }


async def gather_topic_configs(page: Page) -> Context:
    name = page.request.path_params["topic"]
    row = await topic_row(page, name)
    configs = await read_topic_configs(page.cluster.client, name)
    wanted = page.argument("q").lower()
    return {
        "topic": row,
        "tab": "configs",
        "q": page.argument("q"),
        "count": len(configs),
        "configs": [
            each for each in configs if wanted in each.name or wanted in each.documentation.lower()
        ],
        "changed": [each for each in configs if each.source == "topic"],
    }


async def gather_topic_actions(page: Page) -> Context:
    """The forms of a topic: partitions, records, deletion."""
    row = await topic_row(page, page.request.path_params["topic"])
    return {"topic": row, "tab": "actions", "partitions": read_partitions(row)}
