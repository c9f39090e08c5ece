"""The overview: brokers, controller, replication health, throughput, recent events."""

from typing import Any, Final

from barnabas.cli.admin.admin_requests import describe_controller
from barnabas.console.cluster.broker_metrics import BrokerLatency
from barnabas.console.cluster.console_client import (
    ClusterFailed,
    ClusterSnapshot,
    ConsoleClient,
    Unreachable,
)
from barnabas.console.console_state import ClusterHandle
from barnabas.console.web.page import Context, Page
from barnabas.wire.apis import ApiKey

_EVENTS: Final = 40
_DESCRIBED_PARTITIONS: Final = 2_000


async def gather_overview(page: Page) -> Context:
    cluster = page.cluster
    view = await cluster.client.view()
    index = await cluster.index.get()
    samples = list(cluster.watch.throughput)
    gone: list[int] = []
    if index.under_replicated or index.offline:  # else nobody misses a broker
        gone = (await cluster.index.placement(index)).gone(view.ids)
    return {
        "view": view,
        "gone": gone,
        "index": index,
        "controller": await controller_state(cluster.client, index.partitions),
        "round_trips": {each: cluster.client.round_trip_ms(each) for each in view.ids},
        "latency": await _latency(cluster, view, index.partitions),
        "events": list(cluster.watch.events)[:_EVENTS],
        "rate": samples[-1].messages if samples else None,
        "chart": [
            [each.at_ms / 1000 for each in samples],
            [each.messages for each in samples],
        ],
    }


async def _latency(
    cluster: ClusterHandle, view: ClusterSnapshot, partitions: int
) -> dict[int, BrokerLatency]:
    """By the brokers' metrics, which only Barnabas has; a page of very many partitions is large."""
    if cluster.client.is_barnabas and partitions <= _DESCRIBED_PARTITIONS:
        return await cluster.metrics.get(view.brokers)
    return {}


async def controller_state(client: ConsoleClient, partitions: int) -> dict[str, Any] | None:
    """The description that Barnabas gives of its controller; None elsewhere.

    It describes every partition: a cluster with very many is not asked.
    """
    if partitions > _DESCRIBED_PARTITIONS or client.is_barnabas is False:
        return None
    if await client.offers(ApiKey.CONTROLLED_SHUTDOWN):
        try:
            state: dict[str, Any] = await client.checked(describe_controller(client))
        except ClusterFailed as failure:
            if not isinstance(failure, Unreachable):  # a controller may come back
                client.is_barnabas = False
            return None
        client.is_barnabas = True
        return state
    return None
