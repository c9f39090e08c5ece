"""Request latency of brokers, from the metrics that a Barnabas broker serves to Prometheus.

A broker's config `barnabas.metrics.listener` says where; the console reads it with DescribeConfigs.
Kafka's protocol has no such figures: of other brokers the console knows its own round trips only.
"""

import asyncio
import contextlib
import re
import urllib.request
from collections.abc import Mapping
from typing import Final, NamedTuple

from barnabas.base.offload import Offload
from barnabas.cli.admin.admin_requests import BROKER
from barnabas.console.cluster.console_client import ClusterFailed, ConsoleClient, ListedBroker
from barnabas.console.cluster.topics import read_configs

_LISTENER: Final = "barnabas.metrics.listener"
_TIMEOUT_S: Final = 1.0
_LARGEST: Final = 4 * 1024 * 1024
_FRESH_S: Final = 1.5
_SHARE: Final = 0.99
_SAMPLE: Final = re.compile(
    r'barnabas_request_seconds_(bucket|sum|count)\{api="(\w+)",(?:le="([^"]+)",)?phase="(\w+)"'
    r"[^}]*\} (\S+)"
)
_ANY: Final = ("", "0.0.0.0", "::", "*")


class MetricTotals(NamedTuple):
    """Counters since the broker started."""

    at_s: float
    requests: float
    produced: float
    produce_s: float
    within: Mapping[float, float]


class BrokerLatency(NamedTuple):
    """The requests of all clients to one broker, between two looks."""

    per_second: float | None
    produce_ms: float | None
    most_ms: float | None


class BrokerMetrics:
    """The newest latencies; brokers are asked while somebody looks at them."""

    def __init__(self, client: ConsoleClient, offload: Offload) -> None:
        self._client = client
        self._offload = offload
        self._urls: dict[int, str] = {}
        self._totals: dict[int, MetricTotals] = {}
        self._found: dict[int, BrokerLatency] = {}
        self._at_s = float("-inf")

    async def get(self, brokers: tuple[ListedBroker, ...]) -> dict[int, BrokerLatency]:
        """The latency at each broker that serves its metrics to this machine."""
        now = asyncio.get_running_loop().time()
        if now - self._at_s >= _FRESH_S:
            self._at_s = now
            read = await asyncio.gather(*(self._read(each, now) for each in brokers))
            self._found = {
                each.id: found for each, found in zip(brokers, read, strict=True) if found
            }
        return self._found

    async def _read(self, broker: ListedBroker, now: float) -> BrokerLatency | None:
        if broker.id not in self._urls:
            with contextlib.suppress(ClusterFailed):
                self._urls[broker.id] = await self._url(broker)
        url = self._urls.get(broker.id)
        if not url:
            return None
        try:
            page = await self._offload(lambda: _fetch(url))
        except (OSError, ValueError):
            del self._urls[broker.id]  # it may start again with another address
            return None
        totals = read_totals(page, now)
        before = self._totals.get(broker.id)
        self._totals[broker.id] = totals
        return decide_latency(before, totals)

    async def _url(self, broker: ListedBroker) -> str:
        """Empty if the broker serves none. Raises ClusterFailed."""
        for each in await read_configs(self._client, BROKER, str(broker.id)):
            if each.name == _LISTENER and each.value:
                host, _, port = each.value.rpartition(":")
                host = broker.host if host.strip("[]") in _ANY else host
                return f"http://{host}:{port}/metrics" if port not in ("", "0") else ""
        return ""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A broker names its own address, and leads to no other."""

    def redirect_request(self, *_: object) -> None:
        return None


_opener: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)


def _fetch(url: str) -> str:
    with _opener.open(url, timeout=_TIMEOUT_S) as answer:
        page: bytes = answer.read(_LARGEST)
    return page.decode("utf-8", "replace")


def read_totals(page: str, at_s: float) -> MetricTotals:
    """The counters of a page of metrics; zero if it has none."""
    requests = produced = produce_s = 0.0
    within: dict[float, float] = {}
    for kind, api, le, phase, value in _SAMPLE.findall(page):
        if kind == "sum" and api == "Produce":
            produce_s += float(value)
        elif kind == "count" and phase == "local":
            requests += float(value)
            produced += float(value) if api == "Produce" else 0
        elif kind == "bucket" and phase == "local":
            within[float(le)] = within.get(float(le), 0) + float(value)
    return MetricTotals(at_s, requests, produced, produce_s, within)


def decide_latency(before: MetricTotals | None, now: MetricTotals) -> BrokerLatency:
    """The latency since `before`; since the broker started if it did so meanwhile."""
    if before is None or before.requests > now.requests:
        before = MetricTotals(now.at_s, 0, 0, 0, {})
    passed_s, requests = now.at_s - before.at_s, now.requests - before.requests
    produced = now.produced - before.produced
    return BrokerLatency(
        requests / passed_s if passed_s > 0 else None,
        (now.produce_s - before.produce_s) / produced * 1000 if produced else None,
        _bound_ms(before.within, now.within, requests) if requests else None,
    )


def _bound_ms(
    before: Mapping[float, float], now: Mapping[float, float], requests: float
) -> float | None:
    for bound_s in sorted(now):
        if now[bound_s] - before.get(bound_s, 0) >= _SHARE * requests:
            return None if bound_s == float("inf") else bound_s * 1000
    return None
